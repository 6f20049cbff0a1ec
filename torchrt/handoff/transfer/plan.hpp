// How training state gets from one generation to the next. The plan intersects two maps from
// logical coordinates (unit, tensor, rows, columns) to ranks. Pure: every rank of both generations
// computes the same answer.
//
// A process reaches all memory of its own node. Messages between nodes are sent by the new
// generation's ranks. On nodes that the job leaves, the old generation's ranks send them; these
// ranks are donors.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "torchrt/handoff/transfer/groups.hpp"

namespace espalier::torchrt {

struct TransferRequest {
  Plan before, after;  // node names say where memory lies: a TP group's ranks may be on several nodes
  bool zero1_before = false, zero1_after = false;
  DataType dtype = DataType::float32;
  bool adopts = true;  // false: copy on the node instead of adopting
  // Memory stays on its GPU: ranks of other GPUs cannot adopt it, only copy from it.
  bool gpu_memory = false;
  std::vector<int> lost = {};  // old ranks whose memory is gone
  // Old ranks and units: single memories that are of no use.
  std::vector<std::pair<int, int>> torn = {};
  std::size_t message_bytes = std::size_t{64} << 20;  // the most in one message; a multiple of 4
  // Donors reach only the nodes of the old generation (routes.hpp). Other nodes get a piece from
  // another party that has it, if there is one.
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

// A copy that the rank of `to` makes from memory on its node.
struct Copy {
  Piece piece;
  MemoryId from, to;
};

// A message between nodes. Parties are numbered: first the new ranks by rank, then the donors.
// Donor number = ranks of the new plan + old rank.
struct Message {
  Piece piece;
  int sender = 0, receiver = 0;  // parties; the receiver is a new rank
  MemoryId from, to;
  int after = -1;  // the message that brings the sender its piece; -1: the sender has it
  // The offset in a relay's memory, if `from` or `to` is one (routes.hpp).
  std::size_t relay_at = 0;
};

class TransferPlan {
 public:
  // Throws Error when a plan does not suit the model, or when needed state is lost everywhere.
  TransferPlan(const ModelConfig& model, const TransferRequest& request);

  const UnitGroups& groups() const { return groups_; }
  const Fragment& fragment(const Piece& piece) const {
    return groups_.list()[static_cast<std::size_t>(piece.group)]
        .partition->fragments[static_cast<std::size_t>(piece.fragment)];
  }
  const StateShard& shard(const MemoryId& memory) const { return groups_.shard(memory); }

  const std::vector<Adoption>& adoptions() const { return adoptions_; }
  // Copies from memory of the old generation: possible as soon as that generation stands still.
  const std::vector<Copy>& copies() const { return copies_; }
  // All messages, in one global order. Each party works through its own messages in this order and
  // waits for the other side; no circle of waits arises. A forwarded message comes after the
  // message that brings it. A party's sends and receives take turns.
  const std::vector<Message>& messages() const { return messages_; }
  // Copies from memory of the new generation: possible when the node's messages have arrived.
  const std::vector<Copy>& late_copies() const { return late_copies_; }

  int new_ranks() const { return static_cast<int>(groups_.after().layout.ranks.size()); }
  bool is_donor(int party) const { return party >= new_ranks(); }
  int donor(int party) const { return party - new_ranks(); }  // old rank of a donor

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
