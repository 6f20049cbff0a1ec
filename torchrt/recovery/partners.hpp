// Chooses the rank that keeps copies of another rank's state. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

// The vault that keeps a rank's memory.
struct VaultPlace {
  std::string owner;           // the Slurm job whose vault it is
  bool own = false;            // the vault is the job's own: Slurm takes it only with the job
  bool with_launcher = false;  // on the launcher's node, whose loss ends the job
  int copies = 2;              // of other ranks' states that it has memory for (copies_that_fit)
};

// Of how many other ranks a rank can keep copies: from 2, for which it must have room, to 4. More would gain little,
// and snapshots would take as much longer. `free_bytes`: of the host's memory. `ranks`: that run on this host.
// `state_bytes`: of the largest state. A copy takes twice that. Half of what the ranks' own copies leave of the memory
// stays free.
int copies_that_fit(std::int64_t free_bytes, int ranks, std::int64_t state_bytes);

// By rank: the rank that keeps a copy of its state; -1: none. `places`: the ranks' vaults. The
// first rule that applies decides:
// - A rank on the launcher's node needs no copy.
// - A rank of the job's own keeps the copy if it outlives the loss and has room for one more
//   (VaultPlace::copies). The one with the fewest copies comes first.
// - If the job has ranks of its own, a lent rank on another node keeps the copy.
// - A rank on the plan's next node keeps the copy; after the last node comes the first. A node's
//   ranks spread over the next node's ranks. If the plan has one node, the next vault takes the
//   next node's place, because an extension that goes takes its vault with it.
std::vector<int> snapshot_partners(const Plan& plan, const std::vector<VaultPlace>& places);

}  // namespace espalier::torchrt
