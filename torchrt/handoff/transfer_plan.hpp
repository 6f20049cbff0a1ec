// How training state gets from one generation to the next: the intersection of two plans. Pure; every rank of both
// generations computes the same answer.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"

namespace espalier::torchrt {

enum class TakeKind {
  adopt,    // map the old rank's memory and keep it
  copy,     // into memory of one's own, from the old rank's on the same node
  receive,  // by MPI, from a donor of the new generation
};

// A new rank gets a unit. `from`: old rank (adopt, copy) or new rank (receive).
struct Take {
  int rank = 0, unit = 0;
  TakeKind kind = TakeKind::adopt;
  int from = 0;
  bool operator==(const Take&) const = default;
};

// Before the old generation stands still for good, a unit moves inside it to an old rank on a node where the new
// generation needs it.
struct Collapse {
  int unit = 0, from = 0, to = 0;  // old ranks
  bool operator==(const Collapse&) const = default;
};

// The sending half of a `receive`. `old_rank`: whose memory on its node the donor sends from; -1: the donor takes the
// unit itself, and sends from there.
struct Donation {
  int unit = 0, donor = 0, to = 0, old_rank = -1;
  bool operator==(const Donation&) const = default;
};

// Each list is in one global order: ranks that work through their entries in that order, waiting at each, never wait
// for each other in a circle.
struct TransferPlan {
  std::vector<Collapse> collapses;
  std::vector<Take> takes;          // by rank, then unit
  std::vector<Donation> donations;  // one for each `receive`
  bool collapsed(int unit, int old_rank) const;
};

// A unit crosses from one node to another only when the target node holds it nowhere; what an old rank of the target
// node can take crosses in the old generation, the rest in the new one. One old allocation is adopted at most once.
// `gpu_memory`: memory stays on its GPU, so another GPU's rank must copy it. Throws Error when the generations share no
// node, or a plan does not fit a model of `layers` layers.
TransferPlan plan_transfer(const Plan& before, const Plan& after, int layers, bool gpu_memory);

}  // namespace espalier::torchrt
