// ElasticFlow (ASPLOS '23) without deadlines ("-LS" of Arena §5): minimum shares, then GPUs where they bring most; DP
// degrees are powers of two around the submitted pipeline.
//
// Choices that the paper leaves open, taken in its favour: the next decision is made at once when a job comes or ends
// (its code waits for a slot of 60 s), jobs that fit pass those that do not, and throughputs are compared in units of
// the job's own on its least GPUs, so that models of unlike size compete by how well they scale.
#include "planner/sim/policies/elasticflow_shares.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/reallocation.hpp"
#include "planner/sim/policies/speed_book.hpp"

namespace espalier::sim {
namespace {

class ElasticFlow final : public Policy {
 public:
  std::string name() const override { return "elasticflow"; }
  bool owns_queue() const override { return true; }

  std::vector<Act> decide(const SimulatedView& view) override {
    book_.turn_to(view);
    const auto& pools = book_.pools();
    const auto held = held_in_pools(view, pools);
    std::vector<Wanted> wanted(view.jobs.size());
    // One type at a time, the fastest first: who waits after one tries the next.
    for (int p = 0; p < static_cast<int>(pools.size()); ++p) {
      const GpuPool& pool = pools[static_cast<std::size_t>(p)];
      int gpus = pool.gpus;
      std::vector<ShareJob> jobs(view.jobs.size());
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        const bool here = held[j].pool == p;
        if (here && view.jobs[j]->redeploying) gpus -= held[j].gpus;
        else if (here || (held[j].pool < 0 && wanted[j].gpus == 0)) jobs[j] = {levels(view, j, pool), here};
      }
      const auto level = elasticflow_shares(jobs, gpus);
      for (std::size_t j = 0; j < jobs.size(); ++j)
        if (level[j] >= 0) wanted[j] = {p, jobs[j].levels[static_cast<std::size_t>(level[j])].gpus};
    }
    return reallocate(view, pools, held, wanted, [&](const SimulatedJobState& job, const std::vector<Piece>& pieces) {
      return data_parallel_sketch(book_.of(job), pieces);
    });
  }

 private:
  std::vector<ShareLevel> levels(const SimulatedView& view, std::size_t job, const GpuPool& pool) {
    JobSpeeds& speeds = book_.of(*view.jobs[job]);
    std::vector<ShareLevel> found;
    double unit = 0;
    for (int gpus = speeds.replica_gpus(); gpus <= pool.gpus; gpus *= 2) {
      const double throughput = speeds.data_parallel(pool, view.input.cluster, gpus);
      if (throughput <= 0) continue;
      if (unit == 0) unit = throughput / gpus;
      found.push_back({gpus, throughput / unit});
    }
    return found;
  }

  SpeedBook book_;
};

}  // namespace

std::unique_ptr<Policy> make_elasticflow(const PolicyOptions&) { return std::make_unique<ElasticFlow>(); }

}  // namespace espalier::sim
