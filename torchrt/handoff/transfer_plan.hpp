// How training state gets from one generation to the next: the intersection of two plans. Pure; every rank of both
// generations computes the same answer.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"
#include "torchrt/handoff/piece.hpp"

namespace espalier::torchrt {

enum class TakeKind {
  adopt,    // map the old rank's memory and keep it
  copy,     // into memory of one's own, from the old rank's on the same node
  receive,  // by MPI, from a donor of the new generation
};

// A new rank gets a piece. `from`: old rank (adopt, copy) or new rank (receive).
struct Take {
  int rank = 0;
  Piece piece;
  TakeKind kind = TakeKind::adopt;
  int from = 0;
  bool operator==(const Take&) const = default;
};

// Before the old generation stands still for good, a piece moves inside it to an old rank on a node where the new
// generation needs it.
struct Collapse {
  Piece piece;
  int from = 0, to = 0;  // old ranks
  bool operator==(const Collapse&) const = default;
};

// The sending half of a `receive`. `old_rank`: whose memory on its node the donor sends from; -1: the donor takes the
// piece itself, and sends from there.
struct Donation {
  Piece piece;
  int donor = 0, to = 0, old_rank = -1;
  bool operator==(const Donation&) const = default;
};

// Each list is in one global order: ranks that work through their entries in that order, waiting at each, never wait
// for each other in a circle.
struct TransferPlan {
  std::vector<Collapse> collapses;
  std::vector<Take> takes;          // by rank, then piece
  std::vector<Donation> donations;  // one for each `receive`
  bool collapsed(const Piece& piece, int old_rank) const;
};

// A piece crosses from one node to another only when the target node holds it nowhere; what an old rank of the target
// node can take crosses in the old generation, the rest in the new one. One old allocation is adopted at most once.
// `gpu_memory`: memory stays on its GPU, so another GPU's rank must copy it. Throws Error when the generations share no
// node, a unit changes its TP degree (its pieces would have to be cut anew), or a plan does not fit a model of `layers`
// layers.
TransferPlan plan_transfer(const Plan& before, const Plan& after, int layers, bool gpu_memory);

}  // namespace espalier::torchrt
