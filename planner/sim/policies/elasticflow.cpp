// ElasticFlow (ASPLOS '23) without deadlines ("-LS" of Arena §5): minimum shares first, then GPUs
// where they gain most. DP degrees are powers of two around the submitted pipeline.
//
// The paper leaves these choices open. All are made in its favour:
// - A running job loses GPUs only for a waiting job. ElasticFlow's code redistributes all GPUs at
//   every event, which restarts most jobs each time; checkpoints make that too expensive.
// - A job that is to grow counts the restart against its remaining time. Its users give the number
//   of iterations.
// - Jobs that fit pass jobs that do not.
// - A job's throughput is measured in units of its own throughput per GPU on its fewest GPUs.
//   Models of different size then compete by how well they scale.
#include "planner/sim/policies/elasticflow_shares.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/pooled_policy.hpp"
#include "planner/sim/policies/queue_order.hpp"

namespace espalier::sim {
namespace {

class ElasticFlow final : public PooledPolicy {
 public:
  explicit ElasticFlow(const RedeployOptions& redeploy) : redeploy_(redeploy) {}
  std::string name() const override { return "elasticflow"; }
  bool admits_in_queue_order() const override { return true; }

 private:
  std::vector<Wanted> share_out(const SimulatedView& view, const std::vector<HeldGpus>& held) override {
    const auto& pools = book_.pools();
    std::vector<Wanted> wanted(view.jobs.size());
    const auto order = queue_order(view);
    // One type at a time, the fastest first. A job that still waits tries the next type.
    for (int p = 0; p < static_cast<int>(pools.size()); ++p) {
      const GpuPool& pool = pools[static_cast<std::size_t>(p)];
      int gpus = pool.gpus;
      std::vector<ShareJob> jobs(view.jobs.size());
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const std::size_t j = order[i];
        const bool here = held[j].pool == p;
        if (here && view.jobs[j]->redeploying) gpus -= held[j].gpus;
        else if (!may_use(*view.jobs[j], *this, pool.type)) continue;
        else if (here || (held[j].pool < 0 && wanted[j].gpus == 0)) jobs[i] = job_of(view, j, pool, held[j].gpus);
      }
      const auto level = elasticflow_shares(jobs, gpus);
      for (std::size_t i = 0; i < jobs.size(); ++i)
        if (level[i] >= 0) wanted[order[i]] = {p, jobs[i].levels[static_cast<std::size_t>(level[i])].gpus};
    }
    return wanted;
  }

  ShareJob job_of(const SimulatedView& view, std::size_t index, const GpuPool& pool, int held) {
    const SimulatedJobState& state = *view.jobs[index];
    JobSpeeds& speeds = book_.of(state);
    const double restart = resume_seconds(redeploy_, *state.coefficients, state.kind->gpus());
    ShareJob job;
    double unit = 0;
    if (!state.job->elastic) {
      const int own = state.kind->gpus();
      const double throughput = speeds.data_parallel(pool, view.input.cluster, own);
      if (throughput > 0) job.levels.push_back({own, 1.0 * own});
      if (throughput > 0 && held == own) job.level = 0;
      return job;
    }
    for (int gpus = speeds.replica_gpus(); gpus <= pool.gpus; gpus *= 2) {
      const double throughput = speeds.data_parallel(pool, view.input.cluster, gpus);
      if (throughput <= 0) continue;
      if (unit == 0) unit = throughput / gpus;
      if (gpus == held) job.level = static_cast<int>(job.levels.size());
      const double seconds = state.iterations_left / throughput;
      const double worth = held > 0 && gpus > held ? seconds / (seconds + restart) : 1;
      job.levels.push_back({gpus, throughput * worth / unit});
    }
    return job;
  }

  const RedeployOptions redeploy_;
};

}  // namespace

std::unique_ptr<Policy> make_elasticflow(const PolicyOptions& options) {
  return std::make_unique<ElasticFlow>(options.redeploy);
}

}  // namespace espalier::sim
