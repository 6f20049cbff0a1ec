// metis: Suika's Algorithm 2 with Metis in place of Algorithm 1. Redeployment is by checkpoint.
//
// The paper leaves these choices open. All are made in its favour:
// - A search's result is kept as long as the job's plan stays.
// - A search takes the time for equal GPUs, whatever the allocation.
// - A job trains on while its searches run. The GPUs that it will get are idle meanwhile.
#include "planner/sim/policies/metis_solver.hpp"
#include "planner/sim/policies/policies.hpp"

namespace espalier::sim {
namespace {

class Metis final : public Policy {
 public:
  explicit Metis(const PolicyOptions& given) : solver_(std::make_shared<MetisSolver>()) {
    options_.lambda = given.lambda;
    options_.as_printed = true;
    options_.solver = solver_;
    // The measurement it would have made with a model of 7B: the start, and its state saved and
    // loaded (16 bytes per parameter).
    options_.redeploy_seconds = given.redeploy.start_seconds + 2 * 7 * 16 / given.redeploy.storage_gb_s;
    const auto known = given.redeploy.measured.find(Method::checkpoint);
    if (known != given.redeploy.measured.end()) options_.redeploy_seconds = known->second.pause_seconds;
    scheduler_ = make_suika_scheduler(options_);
  }
  std::string name() const override { return "metis"; }
  bool keeps_basic() const override { return true; }
  bool needs_coefficients() const override { return true; }
  double cooldown() const override { return options_.cooldown_seconds; }

  std::vector<Act> decide(const SimulatedView& view) override {
    std::vector<Act> acts;
    auto decisions = scheduler_->decide(view.input);
    const double searched = solver_->take_seconds();
    for (Decision& decision : decisions) {
      Act act{decision.job, std::move(decision.plan), std::move(decision.reason), std::move(decision.release)};
      // Decisions that give GPUs back take effect at once.
      if (decision.kind == DecisionKind::grow) act.thought_seconds = searched;
      acts.push_back(std::move(act));
    }
    return acts;
  }

 private:
  const std::shared_ptr<MetisSolver> solver_;
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace

std::unique_ptr<Policy> make_metis(const PolicyOptions& options) { return std::make_unique<Metis>(options); }

}  // namespace espalier::sim
