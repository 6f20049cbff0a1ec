// arena: Arena (EuroSys '26). Every 5 minutes its scheduler (arena_scheduler.hpp) decides how many
// GPUs of which type every job has, from the speeds of the jobs' proxy plans (core/grid). A job is
// always on GPUs of one type. GPUs are allotted by the buddy rule: powers of two, inside a node or as
// whole nodes, and jobs migrate where that is needed to make room (packing.hpp).
//
// The paper leaves these choices open. All are made in its favour:
// - Profiles of proxy plans are there when a job is submitted, and are exact.
// - A job runs its proxy plan; it needs no search at run time (§3.6: "directly using the proxy plan
//   for zero-overhead execution"), unless the cluster's file gives its pruned search a cost.
#include <algorithm>
#include <bit>

#include "planner/core/error.hpp"
#include "planner/sim/policies/arena_book.hpp"
#include "planner/sim/policies/arena_scheduler.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/reallocation.hpp"
#include "planner/sim/policies/speed_book.hpp"

namespace espalier::sim {
namespace {

class Arena final : public Policy {
 public:
  explicit Arena(const ArenaOptions& options) : options_(options), scheduler_(options) {}
  std::string name() const override { return "arena"; }
  double period() const override { return options_.round_seconds; }
  bool owns_queue() const override { return true; }
  bool needs_elastic_jobs() const override { return true; }
  bool chooses_types() const override { return true; }
  bool prunes_search() const override { return true; }

  std::vector<Act> decide(const SimulatedView& view) override {
    turn_to(view);
    const auto held = held_in_pools(view, pools_);
    std::vector<int> capacity;
    for (const GpuPool& pool : pools_) capacity.push_back(pool.gpus);
    std::vector<ArenaJob> jobs;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) jobs.push_back(job_of(view, *view.jobs[j], held[j]));
    scheduler_.round(jobs, capacity);
    std::vector<Wanted> wanted(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j)
      if (jobs[j].gpus > 0) wanted[j] = {jobs[j].pool, jobs[j].gpus};
    return reallocate(view, pools_, held, wanted, [&](const SimulatedJobState& job, const std::vector<Piece>& pieces) {
      return speeds_of(view, job).sketch(view, pieces);
    });
  }

 private:
  static int power(int gpus) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(gpus))); }

  void turn_to(const SimulatedView& view) {
    auto pools = gpu_pools(view.input.cluster, *view.input.site);
    const bool same = site_ == view.input.site && std::equal(pools.begin(), pools.end(), pools_.begin(), pools_.end(),
                                                             [](const GpuPool& a, const GpuPool& b) {
                                                               return a.type == b.type && a.nodes == b.nodes;
                                                             });
    if (same) return;
    site_ = view.input.site;
    pools_ = std::move(pools);
    known_.clear();
    restricted_.clear();  // its keys point at what is known
  }

  ArenaSpeeds& speeds_of(const SimulatedView& view, const SimulatedJobState& job) {
    for (const auto& one : known_)
      if (one->is_for(*job.coefficients, *job.kind)) return *one;
    const int most = std::max(options_.most_gpus, power(job.kind->gpus()));
    return *known_.emplace_back(std::make_unique<ArenaSpeeds>(view, pools_, *job.coefficients, *job.kind, most));
  }

  ArenaJob job_of(const SimulatedView& view, const SimulatedJobState& state, const HeldGpus& held) {
    ArenaJob job;
    job.id = state.id;
    job.throughput = &allowed(view, speeds_of(view, state), state);
    job.pool = held.pool;
    job.gpus = held.gpus;
    job.fixed = state.redeploying;
    job.waited = state.waited_until(view.input.now);
    ask(job, state);
    return job;
  }

  // Where a job may not run on a type, its speed there is 0. Where it fits on none of the usual numbers of GPUs, larger
  // ones are looked at.
  const std::vector<std::vector<double>>& allowed(const SimulatedView& view, ArenaSpeeds& speeds,
                                                  const SimulatedJobState& state) {
    const bool any = state.job->type < 0 || state.job->any_type;
    auto& own = restricted_[{&speeds, any ? -1 : state.job->type}];
    if (!own.empty()) return own;
    const auto may = [&](std::size_t p) { return any || may_use(state, *this, pools_[p].type); };
    const auto fits = [&](std::size_t p) {
      const auto& list = speeds.throughput()[p];
      return std::any_of(list.begin(), list.end(), [](double speed) { return speed > 0; });
    };
    const auto runs = [&] {
      for (std::size_t p = 0; p < pools_.size(); ++p)
        if (may(p) && fits(p)) return true;
      return false;
    };
    for (std::size_t p = 0; !runs() && p < pools_.size(); ++p)
      if (may(p)) speeds.look_further(view, p);
    for (std::size_t p = 0; !runs() && p < pools_.size(); ++p)
      if (may(p)) speeds.search(view, p);
    own = speeds.throughput();
    for (std::size_t p = 0; p < pools_.size(); ++p)
      if (!may(p)) std::fill(own[p].begin(), own[p].end(), 0.0);
    return own;
  }

  // The type and the number of GPUs that the job asks for: of its submission where it can run so. Else the fewest GPUs
  // of the type that suffice, else of the fastest type.
  void ask(ArenaJob& job, const SimulatedJobState& state) const {
    const int own = power(state.kind->gpus());
    std::vector<std::size_t> order;
    const int wished =
        state.job->type >= 0 ? state.job->type : (state.kind->on.empty() ? -1 : state.kind->on.front().type);
    for (std::size_t p = 0; p < pools_.size(); ++p)
      if (pools_[p].type == wished) order.insert(order.begin(), p);
      else order.push_back(p);
    for (const std::size_t p : order) {
      const auto& speeds = (*job.throughput)[p];
      std::size_t level = 0;
      while ((1 << level) < own) ++level;
      for (; level < speeds.size(); ++level)
        if (speeds[level] > 0) {
          job.asked_pool = static_cast<int>(p);
          job.asked_gpus = 1 << level;
          return;
        }
    }
    // Fewer GPUs than it asks for, but the most that one type has a plan for.
    for (const std::size_t p : order)
      for (std::size_t level = (*job.throughput)[p].size(); level-- > 0;)
        if ((*job.throughput)[p][level] > 0) {
          job.asked_pool = static_cast<int>(p);
          job.asked_gpus = 1 << level;
          return;
        }
    throw Error("arena: job " + std::to_string(state.id) + " (" + state.kind->model + ") has a plan on no type of GPU");
  }

  const ArenaOptions options_;
  ArenaScheduler scheduler_;
  std::shared_ptr<const Site> site_;
  std::vector<GpuPool> pools_;
  std::vector<std::unique_ptr<ArenaSpeeds>> known_;
  std::map<std::pair<const ArenaSpeeds*, int>, std::vector<std::vector<double>>> restricted_;
};

}  // namespace

std::unique_ptr<Policy> make_arena(const PolicyOptions& options) { return std::make_unique<Arena>(options.arena); }

}  // namespace espalier::sim
