// Rubick (MLSys '25). Every 60 s it decides by the slopes of curves from GPUs to the throughput of
// the best symmetric 3D plan. As published; the branch of its released code that shrinks jobs never
// runs.
//
// The paper leaves these choices open. All are made in its favour:
// - Curves hold every number of GPUs for which an even plan exists.
// - A waiting job that does not get its minimum lets the jobs behind it pass.
// - Only past reconfigurations count against the next one.
#include <algorithm>

#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/pooled_policy.hpp"
#include "planner/sim/policies/queue_order.hpp"
#include "planner/sim/policies/rubick_slopes.hpp"

namespace espalier::sim {
namespace {

class Rubick final : public PooledPolicy {
 public:
  explicit Rubick(const RedeployOptions& redeploy) : redeploy_(redeploy) {}
  std::string name() const override { return "rubick"; }
  bool admits_in_queue_order() const override { return true; }
  bool needs_elastic_jobs() const override { return true; }
  double period() const override { return 60; }

 private:
  std::vector<Wanted> share_out(const SimulatedView& view, const std::vector<HeldGpus>& held) override {
    const auto& pools = book_.pools();
    std::vector<Wanted> wanted(view.jobs.size());
    const auto order = queue_order(view);
    // One type at a time, the fastest first. A job that still waits tries the next type.
    for (int p = 0; p < static_cast<int>(pools.size()); ++p) {
      std::vector<RubickJob> jobs(view.jobs.size());
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const std::size_t j = order[i];
        if (may_use(*view.jobs[j], *this, pools[static_cast<std::size_t>(p)].type) &&
            (held[j].pool == p || (held[j].pool < 0 && wanted[j].gpus == 0)))
          jobs[i] = job_of(view, *view.jobs[j], pools[static_cast<std::size_t>(p)], held[j].gpus);
      }
      const auto shares = rubick_shares(jobs, pools[static_cast<std::size_t>(p)].gpus, options_);
      for (std::size_t i = 0; i < jobs.size(); ++i)
        if (shares[i] > 0) wanted[order[i]] = {p, shares[i]};
    }
    return wanted;
  }

  std::optional<PlanSketch> plan_on(const SimulatedJobState& job, const std::vector<Piece>& pieces) override {
    if (job.kind->measured) return book_.of(job).sketch(pieces);
    const auto plan = fastest_even_plan(book_.of(job).even_evaluator(), pieces);
    if (!plan) return std::nullopt;
    return plan->sketch;
  }

  RubickJob job_of(const SimulatedView& view, const SimulatedJobState& state, const GpuPool& pool, int gpus) {
    RubickJob job;
    JobSpeeds& speeds = book_.of(state);
    job.curve = speeds.symmetric(pool, view.input.cluster);
    job.initial = speeds.data_parallel(pool, view.input.cluster, state.kind->gpus());
    // On a type where its own plan does not fit, the smallest plan that fits sets the reference.
    if (job.initial <= 0 && !job.curve.empty()) job.initial = job.curve.front().throughput;
    job.minimum = minimum_demand(job.curve, job.initial);
    job.gpus = gpus;
    job.fixed = state.redeploying;
    job.settled = gpus > 0 && is_settled(view.input.now - state.started, state.restarts,
                                         resume_seconds(redeploy_, *state.coefficients, state.kind->gpus()), options_);
    if (gpus == 0) job.waited = view.input.now - state.job->submit;
    return job;
  }

  const RedeployOptions redeploy_;
  const RubickOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_rubick(const PolicyOptions& options) { return std::make_unique<Rubick>(options.redeploy); }

}  // namespace espalier::sim
