// The new generation's half of a hand-off.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "torchrt/comm/world.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer_plan.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

struct ArrivalBytes {
  std::int64_t adopted = 0, copied = 0, sent = 0;  // sent: by this rank
};

// prepare() maps everything that exists already while the old generation still trains; load() does the rest at its
// boundary. Nothing of the old generation is written. Throws Error.
class Arrival {
 public:
  // `address_of`: the state socket of an old rank. Throws Error, before anything has changed, where the hand-off is not
  // possible: see plan_transfer(); ZeRO-1.
  Arrival(RankState& state, World& world, Device& device, const Plan& before,
          std::function<std::string(int old_rank)> address_of);
  // Every unit of the rank is placed afterwards: in its final memory, or in a stand-in until load().
  void prepare();
  // Collective. Checks that every source stands after `step`.
  ArrivalBytes load(std::int64_t step);
  // After the commit: lets go of what belongs to the old generation only.
  void release();

 private:
  FetchedPiece fetch(const Piece& piece, int old_rank, std::int64_t expected_step) const;
  std::unique_ptr<Allocation> map(const Piece& piece, int old_rank, std::int64_t expected_step);
  bool deferred(const Piece& piece, int old_rank) const { return plan_.collapsed(piece, old_rank); }
  void check_sources(std::int64_t step);
  const Allocation& donated(const Donation& donation);

  RankState& state_;
  World& world_;
  Device& device_;
  TransferPlan plan_;
  std::function<std::string(int)> address_of_;
  std::vector<Take> takes_;                                                // of this rank
  std::map<std::pair<Piece, int>, std::unique_ptr<Allocation>> borrowed_;  // by piece and old rank
};

}  // namespace espalier::torchrt
