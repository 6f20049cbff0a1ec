// The jobs that were submitted to Slurm, as its snapshots show them. Kept in the store, so that a new espalierd knows
// how often jobs arrive.
#pragma once

#include <set>
#include <string>

#include "planner/core/arrivals.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/daemon/store.hpp"

namespace espalier {

class Submissions {
 public:
  // Reads what an earlier run left. `store` must outlive this object.
  explicit Submissions(Store& store);

  // Takes every job that is new since the last snapshot and asks for GPUs. Extensions, jobs in `partition` with an
  // extension's comment, are none. Nothing that ended between two snapshots and that Slurm has forgotten is seen.
  // Throws Error when the store cannot be written.
  void look(const SlurmSnapshot& slurm, const std::string& partition);

  const Arrivals& arrivals() const { return arrivals_; }

 private:
  Store& store_;
  Arrivals arrivals_;
  std::set<JobId> seen_;                    // of the last snapshot
  double latest_ = 0;                       // the latest submission that is known
  bool watching_ = false, marked_ = false;  // marked: since when they are known is in the store
};

}  // namespace espalier
