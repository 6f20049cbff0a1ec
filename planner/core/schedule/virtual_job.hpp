// One running job in the scheduler's virtual cluster: its planning problem, where it stands, and what Algorithm 1 says
// of the idle GPUs around it. Kept between decisions while the job does not change.
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

// A prefix of the idle GPUs in the job's order, and what it would bring.
struct ScaleOut {
  std::size_t prefix = 0;  // index into prefixes(); 0: none
  double benefit = 0;      // marginal benefit B
  double ms = 0;
};

// The newest extensions of a job down to one, and what they are worth.
struct StackTop {
  std::vector<JobId> extensions;  // sorted
  double benefit = 0;             // B of having them: (|R_prev| / |d|) (T_now / T_prev - 1)
};

class VirtualJob {
 public:
  // Needs a plan on known GPUs. nullptr when it has none, or none that the model can express. `books`: of jobs like it;
  // null: it has its own.
  static std::unique_ptr<VirtualJob> make(const ElasticJob& job, std::shared_ptr<const Site> site,
                                          const JobCoefficients& coefficients, bool data_parallel_only = false,
                                          StageBooks* books = nullptr);

  // The same problem as this: what was found for it holds.
  bool stands_for(const ElasticJob& job, const std::shared_ptr<const Site>& site,
                  const JobCoefficients& coefficients) const;

  // Takes over what was found for the job when it stood elsewhere, where that still holds. `before` is spent.
  void inherit(VirtualJob& before);

  const ElasticJob& job() const { return job_; }
  const Problem& problem() const { return evaluator_->problem(); }
  Evaluator& evaluator() { return *evaluator_; }
  const WorkingPlan& present() const { return present_; }
  const std::vector<NodeGpus>& held() const { return held_; }
  std::vector<NodeGpus> held_without(const std::vector<JobId>& extensions) const;  // sorted ids
  double size_of(const std::vector<NodeGpus>& gpus) const;                         // |.| of an allocation

  // Algorithm 1 over `idle` (sorted by node; nothing that the job may not take). Recomputes only what differs from the
  // last call: entries whose units are the same, or on other nodes of the same kind and leaf switch, are kept.
  // Without `extend` only those are left, and no new ones computed.
  void explore(const std::vector<NodeGpus>& idle, const ExpandOptions& options, bool extend = true);
  const std::vector<AffinityUnit>& units() const { return units_; }
  const std::vector<PrefixPlan>& prefixes() const { return prefixes_; }
  bool looks_at(const std::vector<int>& nodes) const;  // sorted; any of its units on one of them

  // The prefix with the highest marginal benefit; prefix 0 when none brings anything.
  ScaleOut best_scale_out() const;
  double benefit_of(std::size_t prefix) const;

  // The fastest plan found on the GPUs held, without any new one; computed once. Benefits are measured against it, lest
  // a poor present plan make a single new GPU look like a bargain. The present plan when nothing beats it.
  const WorkingPlan& replanned(const SearchEffort& effort);
  bool is_replanned() const { return replanned_.has_value(); }

  // Takes the prefix: the virtual cluster moves on. Longer prefixes become those of the rest.
  void apply(std::size_t prefix);
  // Another plan on GPUs it holds.
  void settle(WorkingPlan plan);
  // Drops what explore() knows: the next one starts afresh.
  void forget();

  // What its scale-outs are still worth (Suika §3.2.3): from the newest extension alone to all of them, thinned out
  // (thinning.hpp); entries whose remainder has no valid plan are left out. Slurm's job ids rise with time: the stack
  // is in their order. Computed once.
  const std::vector<StackTop>& stack(const SearchEffort& effort);

  // The mirror of growing: the best plan on a subset of the GPUs held. nullopt: none is valid. Kept until the plan
  // changes: the remainders that stack() has weighed are those that come true.
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
  std::shared_ptr<const Site> site_;
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

// Memory coefficients scaled down until the plan that evidently runs fits: the model was too pessimistic.
void fit_memory_to_running_plan(const Problem& problem, const PlanSketch& running, JobCoefficients& coefficients);

}  // namespace espalier
