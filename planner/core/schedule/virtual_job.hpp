// One running job in the scheduler's virtual cluster: its planning problem, its present plan and
// GPUs, and Algorithm 1's results for the idle GPUs around it. Kept between decisions as long as
// the job does not change.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/stage_books.hpp"
#include "planner/core/solver/algorithm1.hpp"
#include "planner/core/solver/best_plan.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// A prefix of the idle GPUs in the job's order, and its gain.
struct ScaleOut {
  std::size_t prefix = 0;  // index into prefixes(); 0: none
  double benefit = 0;      // marginal benefit B
  double ms = 0;
};

// A job's extensions from the newest down to a given one, and their worth.
struct StackTop {
  std::vector<JobId> extensions;  // sorted
  double benefit = 0;             // B of keeping them: (|R_prev| / |d|) (T_now / T_prev - 1)
  // B of those that the entry before does not have, when the ones of that entry are gone: as when they were lent.
  double own_benefit = 0;
  double slower = 1;  // time of a step without them, as a multiple of the present one
};

class VirtualJob {
 public:
  // nullptr: the job has no plan on known GPUs, or no plan that the model can express. `books` is
  // shared by similar jobs. Null: the job has a book of its own.
  static std::unique_ptr<VirtualJob> make(const ElasticJob& job, std::shared_ptr<const Site> site,
                                          const JobCoefficients& coefficients, bool data_parallel_only = false,
                                          StageBooks* books = nullptr);

  // Whether the arguments pose the same problem, so that all results stay valid.
  bool stands_for(const ElasticJob& job, const std::shared_ptr<const Site>& site,
                  const JobCoefficients& coefficients) const;

  // Takes over the results of the job's earlier state if they are still valid. `before` must not be
  // used afterwards.
  void inherit(VirtualJob& before);

  const ElasticJob& job() const { return job_; }
  // As the job sees it (site_for): nodes of held(), of plans and of units are by this one's ids. Those of idle GPUs are
  // the same in the site that the job was made for.
  const Site& site() const { return *site_; }
  const Problem& problem() const { return evaluator_->problem(); }
  Evaluator& evaluator() { return *evaluator_; }
  const WorkingPlan& present() const { return present_; }
  const std::vector<NodeGpus>& held() const { return held_; }
  // `extensions`: sorted ids.
  std::vector<NodeGpus> held_without(const std::vector<JobId>& extensions) const;
  // Size |.| of an allocation.
  double size_of(const std::vector<NodeGpus>& gpus) const;

  // Runs Algorithm 1 over `idle`, which is sorted by node and holds only GPUs that the job may
  // take. Recomputes only entries that differ from the last call. An entry is kept if its units are
  // the same, or are on other nodes of the same kind and leaf switch. Without `extend` no new
  // entries are computed.
  void explore(const std::vector<NodeGpus>& idle, const ExpandOptions& options, bool extend = true);
  const std::vector<AffinityUnit>& units() const { return units_; }
  const std::vector<PrefixPlan>& prefixes() const { return prefixes_; }
  // Whether a unit is on one of `nodes` (sorted).
  bool looks_at(const std::vector<int>& nodes) const;

  double benefit_of(std::size_t prefix) const;

  // The fastest plan found on the GPUs held, without a new GPU; the present plan if nothing beats
  // it. Computed once. Benefits are measured against it. Otherwise a poor present plan would make a
  // single new GPU look too valuable.
  const WorkingPlan& replanned(const SearchEffort& effort);
  bool is_replanned() const { return replanned_.has_value(); }

  // Takes the prefix in the virtual cluster. Longer prefixes become prefixes of the remaining
  // units.
  void apply(std::size_t prefix);
  // Replaces the present plan by another plan on the GPUs held.
  void settle(WorkingPlan plan);
  // Drops the results of explore(). The next call starts afresh.
  void forget();

  // The present worth of the job's scale-outs (Suika §3.2.3): entries from the newest extension
  // alone to all extensions, thinned out (thinning.hpp). Entries whose remainder has no valid plan
  // are left out. The stack is in the order of Slurm's job ids, which rise with time. Computed
  // once.
  const std::vector<StackTop>& stack(const SearchEffort& effort);

  // The GPUs that the job has with the units of the prefix.
  std::vector<NodeGpus> held_with(std::size_t prefix) const;

  // The reverse of growing: the best plan on a subset of the GPUs held. nullopt: none is valid.
  // Results are kept until the plan changes, so that a shrink uses the same remainders that stack()
  // has weighed.
  std::optional<WorkingPlan> shrunk_to(const std::vector<NodeGpus>& kept, const SearchEffort& effort);

 private:
  struct Shrunk {
    std::vector<Piece> kept;
    SearchEffort effort;
    std::optional<WorkingPlan> plan;
  };
  VirtualJob() = default;
  bool interchangeable(const AffinityUnit& was, const AffinityUnit& now) const;
  std::size_t common_units(const std::vector<AffinityUnit>& units, std::map<int, int>& renamed) const;
  void rename(const std::map<int, int>& renamed);
  ElasticJob job_;
  std::shared_ptr<const Site> given_site_, site_;
  JobCoefficients coefficients_, given_;
  PlanBounds bounds_;
  std::unique_ptr<Evaluator> evaluator_;
  WorkingPlan present_;
  std::optional<WorkingPlan> replanned_;
  std::optional<std::vector<StackTop>> stack_;
  std::vector<Shrunk> shrunk_;
  std::vector<HeldGpus> holdings_;
  std::vector<NodeGpus> held_;
  std::vector<AffinityUnit> units_;
  std::vector<PrefixPlan> prefixes_;
};

// Scales memory coefficients down until the running plan fits. A running plan shows that the model
// was too pessimistic.
void fit_memory_to_running_plan(const Problem& problem, const PlanSketch& running, JobCoefficients& coefficients);

}  // namespace espalier
