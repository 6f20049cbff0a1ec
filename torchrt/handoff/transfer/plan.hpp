// How training state gets from one generation to the next, over logical coordinates (unit, tensor, rows, columns): the
// intersection of two maps from coordinates to ranks. Pure; every rank of both generations computes the same answer.
//
// Whoever runs on a node reaches all memory of that node. Between nodes messages go from the new generation's ranks
// and, on nodes that the job leaves, from the old ones there: donors.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "torchrt/handoff/transfer/groups.hpp"

namespace espalier::torchrt {

struct TransferRequest {
  Plan before, after;
  bool zero1_before = false, zero1_after = false;
  DataType dtype = DataType::float32;
  bool adopts = true;          // false: what could be adopted is copied on its node
  bool gpu_memory = false;     // memory stays on its GPU: ranks of other GPUs cannot adopt it, only copy from it
  std::vector<int> lost = {};  // old ranks whose memory is gone, with what they held
  std::vector<std::pair<int, int>> torn = {};         // old ranks and units: single memories that are of no use
  std::size_t message_bytes = std::size_t{64} << 20;  // at most, in one message; a multiple of 4
  // Donors reach the nodes of the old generation only (routes.hpp): to others who else has a piece sends it.
  bool two_worlds = false;
};

// Bytes of one fragment of a group's state.
struct Piece {
  int group = 0, fragment = 0;
  std::size_t first = 0, bytes = 0;
  bool operator==(const Piece&) const = default;
};

// The new rank keeps the old rank's whole allocation of the unit.
struct Adoption {
  int rank = 0, unit = 0, old_rank = 0;
  bool operator==(const Adoption&) const = default;
};

// By the rank of `to`, from memory on its node.
struct Copy {
  Piece piece;
  MemoryId from, to;
};

// Between nodes. Parties: new ranks as they are numbered, then donors: ranks of the new plan + old rank.
struct Message {
  Piece piece;
  int sender = 0, receiver = 0;  // parties; the receiver is a new rank
  MemoryId from, to;
  int after = -1;  // the message that brings the sender what it forwards; -1: it has it
  // Only where `from` or `to` is a relay's memory (routes.hpp): where in it.
  std::size_t relay_at = 0;
};

class TransferPlan {
 public:
  // Throws Error when a plan does not suit the model or what is needed is lost everywhere.
  TransferPlan(const ModelConfig& model, const TransferRequest& request);

  const UnitGroups& groups() const { return groups_; }
  const Fragment& fragment(const Piece& piece) const {
    return groups_.list()[static_cast<std::size_t>(piece.group)]
        .partition->fragments[static_cast<std::size_t>(piece.fragment)];
  }
  const StateShard& shard(const MemoryId& memory) const { return groups_.shard(memory); }

  const std::vector<Adoption>& adoptions() const { return adoptions_; }
  // From memory of the old generation: possible as soon as that stands still.
  const std::vector<Copy>& copies() const { return copies_; }
  // In one global order: parties that work through their own in it, each waiting for the other side, never wait in a
  // circle. Each comes after the one it forwards.
  const std::vector<Message>& messages() const { return messages_; }
  // From memory of the new generation: when the messages of the node are in.
  const std::vector<Copy>& late_copies() const { return late_copies_; }

  int new_ranks() const { return static_cast<int>(groups_.after().layout.ranks.size()); }
  bool is_donor(int party) const { return party >= new_ranks(); }
  int donor(int party) const { return party - new_ranks(); }  // old rank

  std::int64_t bytes_adopted() const { return bytes_adopted_; }
  std::int64_t bytes_copied() const { return bytes_copied_; }
  std::int64_t bytes_sent() const { return bytes_sent_; }  // between nodes; the least possible

 private:
  friend class TransferPlanner;
  UnitGroups groups_;
  std::vector<Adoption> adoptions_;
  std::vector<Copy> copies_, late_copies_;
  std::vector<Message> messages_;
  std::int64_t bytes_adopted_ = 0, bytes_copied_ = 0, bytes_sent_ = 0;
};

}  // namespace espalier::torchrt
