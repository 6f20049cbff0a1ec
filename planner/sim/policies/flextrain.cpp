// flextrain, flextrain-dp: FlexTrain's scaling controller (§5). The first changes the number of pipeline stages alone,
// the second that of replicas too.
//
// The paper leaves these choices open:
// - A restart stops the job, saves its state, starts, and loads it (§6.3: "the most naive scaling approach").
// - Schedules are 1F1B before and after, where the paper searches for one in both cases.
// - It decides at events. The paper says "periodically", and not how often.
#include "planner/sim/policies/policies.hpp"

namespace espalier::sim {
namespace {

class Flextrain final : public Policy {
 public:
  Flextrain(std::string name, const SchedulerOptions& options, const FlextrainOptions& flextrain)
      : name_(std::move(name)), options_(options), scheduler_(make_flextrain_scheduler(options, flextrain)) {}
  std::string name() const override { return name_; }
  bool keeps_basic() const override { return true; }
  double cooldown() const override { return options_.cooldown_seconds; }

  std::vector<Act> decide(const SimulatedView& view) override {
    std::vector<Act> acts;
    for (Decision& decision : scheduler_->decide(view.input))
      acts.push_back(
          {decision.job, std::move(decision.plan), std::move(decision.reason), std::move(decision.release), 0});
    return acts;
  }

 private:
  const std::string name_;
  const SchedulerOptions options_;
  const std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace

std::unique_ptr<Policy> make_flextrain(const std::string& name, const PolicyOptions& given) {
  SchedulerOptions options = given.scheduler.value_or(SchedulerOptions{});
  FlextrainOptions flextrain = given.flextrain;
  if (name == "flextrain-dp") flextrain.elasticity = Elasticity::pipeline_and_data;
  // Until a job has been changed: the start, and the state of a model of 7B saved and loaded (16 bytes per parameter).
  options.redeploy_seconds = given.redeploy.start_seconds + 2 * 7 * 16 / given.redeploy.storage_gb_s;
  const auto known = given.redeploy.measured.find(Method::checkpoint);
  if (known != given.redeploy.measured.end()) options.redeploy_seconds = known->second.pause_seconds;
  return std::make_unique<Flextrain>(name, options, flextrain);
}

}  // namespace espalier::sim
