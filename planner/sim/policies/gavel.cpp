// Gavel (OSDI '20). Every round (6 minutes) a linear program gives each job's share of the time on
// every GPU type. The round's jobs are the ones furthest behind their shares. Jobs keep their own
// plan and number of GPUs.
//
// The paper leaves these choices open. All are made in its favour:
// - The objective is the sum of throughputs, as Sia's and Arena's authors use it. Least attained
//   service gave the same completion times, within 1%, on the Philly windows that were tried.
// - N_b is the best one for the type.
// - GPUs that a job leaves within a round go to waiting jobs at the next full minute, in the order
//   of their priorities.
#include <map>

#include "planner/sim/policies/gavel_shares.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/pooled_policy.hpp"

namespace espalier::sim {
namespace {

constexpr double kRoundSeconds = 360;

class Gavel final : public PooledPolicy {
 public:
  std::string name() const override { return "gavel"; }
  bool needs_elastic_jobs() const override { return true; }
  bool chooses_types() const override { return true; }
  double period() const override { return kTick; }

 private:
  std::vector<Wanted> share_out(const SimulatedView& view, const std::vector<HeldGpus>& held) override {
    const auto& pools = book_.pools();
    account(view, held);
    const bool new_round = view.input.now >= next_round_;
    if (new_round) next_round_ = view.input.now + kRoundSeconds;

    std::vector<int> capacity;
    for (const GpuPool& pool : pools) capacity.push_back(pool.gpus);
    std::vector<GavelJob> jobs;
    for (const SimulatedJobState* state : view.jobs) {
      GavelJob& job = jobs.emplace_back();
      job.gpus = state->kind->gpus();
      for (const GpuPool& pool : pools)
        job.throughput.push_back(
            may_use(*state, *this, pool.type) ? book_.of(*state).data_parallel(pool, view.input.cluster, job.gpus) : 0);
    }
    const auto shares = gavel_shares(jobs, capacity);
    std::vector<GavelRoundJob> round;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      GavelRoundJob& job = round.emplace_back();
      job.gpus = jobs[j].gpus;
      job.running_on = held[j].pool;
      // Between rounds, running jobs continue.
      job.fixed = held[j].pool >= 0 && (view.jobs[j]->redeploying || !new_round);
      for (std::size_t p = 0; p < pools.size(); ++p) {
        job.share.push_back(jobs[j].throughput[p] > 0 ? shares[j][p] : -1);
        // Every job starts with half a round (as in Gavel's released code), so that no job's
        // fraction is 0.
        job.received.push_back(received_[view.jobs[j]->id][p] + kRoundSeconds / 2);
      }
    }
    const auto types = gavel_round(round, capacity);
    std::vector<Wanted> wanted(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j)
      if (types[j] >= 0) wanted[j] = {types[j], jobs[j].gpus};
    return wanted;
  }

  static constexpr double kTick = 60;

  // Adds up the seconds of every job on every type.
  void account(const SimulatedView& view, const std::vector<HeldGpus>& held) {
    std::map<JobId, std::vector<double>> received;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) {
      const JobId id = view.jobs[j]->id;
      auto& own = received[id];
      if (const auto known = received_.find(id); known != received_.end()) own = std::move(known->second);
      own.resize(book_.pools().size(), 0.0);
      if (held[j].pool >= 0) own[static_cast<std::size_t>(held[j].pool)] += view.input.now - last_;
    }
    received_ = std::move(received);
    last_ = view.input.now;
  }

  std::map<JobId, std::vector<double>> received_;
  double next_round_ = 0, last_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_gavel(const PolicyOptions&) { return std::make_unique<Gavel>(); }

}  // namespace espalier::sim
