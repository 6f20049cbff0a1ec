// Sia (SOSP '23): every 60 s an integer program over configurations, with DP around the submitted
// pipeline. Jobs have strong scaling: the global batch stays (as Suika §5.1 sets them).
//
// The paper leaves these choices open. All are made in its favour:
// - Throughputs are known from the start (Suika §5.1, note 7).
// - Profiling counts as having run on the submitted number of GPUs, so that a job need not grow
//   from its minimum step by step.
// - Replicas of unequal shares are allowed.
// - N_b is always the best one.
#include <algorithm>

#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/pooled_policy.hpp"
#include "planner/sim/policies/sia_program.hpp"

namespace espalier::sim {
namespace {

class Sia final : public PooledPolicy {
 public:
  explicit Sia(const RedeployOptions& redeploy) : redeploy_(redeploy) {}
  std::string name() const override { return "sia"; }
  bool needs_elastic_jobs() const override { return true; }
  bool chooses_types() const override { return true; }
  double period() const override { return 60; }

 private:
  std::vector<Wanted> share_out(const SimulatedView& view, const std::vector<HeldGpus>& held) override {
    const auto& pools = book_.pools();
    std::vector<int> capacity;
    for (const GpuPool& pool : pools) capacity.push_back(pool.gpus);
    std::vector<SiaJob> jobs;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) jobs.push_back(job_of(view, *view.jobs[j], held[j]));
    const auto chosen = choose_configurations(jobs, capacity, {});
    std::vector<Wanted> wanted(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j)
      if (chosen[j]) wanted[j] = {jobs[j].configurations[*chosen[j]].type, jobs[j].configurations[*chosen[j]].gpus};
    return wanted;
  }

  SiaJob job_of(const SimulatedView& view, const SimulatedJobState& state, const HeldGpus& held) {
    SiaJob job;
    job.age = view.input.now - state.job->submit;
    job.restarts = state.restarts;
    job.restart_seconds = resume_seconds(redeploy_, *state.coefficients, state.kind->gpus());
    job.fixed = state.redeploying;
    JobSpeeds& speeds = book_.of(state);
    // At most twice the largest number of GPUs it has run on.
    const int most = 2 * std::max(state.most_gpus, state.kind->gpus());
    for (int p = 0; p < static_cast<int>(book_.pools().size()); ++p) {
      const GpuPool& pool = book_.pools()[static_cast<std::size_t>(p)];
      if (!may_use(state, *this, pool.type)) continue;
      bool current_listed = held.pool != p;
      const auto list = [&](int gpus) {
        const double throughput = speeds.data_parallel(pool, view.input.cluster, gpus);
        if (throughput <= 0) return;
        if (held.pool == p && held.gpus == gpus) job.current = job.configurations.size(), current_listed = true;
        job.configurations.push_back({p, gpus, throughput});
      };
      for (const int gpus : sia_counts(pool.node_gpus, static_cast<int>(pool.nodes.size())))
        if (gpus <= most) list(gpus);
      if (!current_listed) list(held.gpus);
    }
    return job;
  }

  const RedeployOptions redeploy_;
};

}  // namespace

std::unique_ptr<Policy> make_sia(const PolicyOptions& options) { return std::make_unique<Sia>(options.redeploy); }

}  // namespace espalier::sim
