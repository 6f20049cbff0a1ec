// How a plan uses the GPUs that a job holds. Pure.
#pragma once

#include <set>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

// Whether `plan` uses a GPU of `holding`.
bool uses(const Plan& plan, const Holding& holding);

// The same for many holdings of a plan of thousands of GPUs.
class GpusOfPlan {
 public:
  explicit GpusOfPlan(const Plan& plan);
  bool any_of(const Holding& holding) const;

 private:
  std::set<GpuId> gpus_;
};

// The extensions to give back: `taken`, and all of `extensions` that `plan` does not use. Sorted.
std::vector<JobId> leaving(const Plan& plan, const std::vector<Holding>& extensions, const std::set<JobId>& taken);

// Returns `gpus`. If none of them is on the first node of `own`, adds the GPUs of `own` on that node: every plan needs
// one there for rank 0.
std::vector<GpuId> with_lead(std::vector<GpuId> gpus, const std::vector<Holding>& own);

// The planner named GPUs of extensions before Slurm chose them. Replaces the named ones by the
// granted ones of the same node. `held`: the GPUs that the job has had. Throws Error when a node
// has too few.
void place_on_granted(Plan& plan, const std::vector<Holding>& held, const std::vector<Holding>& granted);

}  // namespace espalier::launcher
