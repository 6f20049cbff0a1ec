// What a rank gives its node's vault to keep, so that its state outlives it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "torchrt/rank_state.hpp"
#include "torchrt/recovery/marks.hpp"
#include "torchrt/recovery/vault_client.hpp"

namespace espalier::torchrt {

// While it lives the vault counts the rank as alive. Marks count by unit.
class Keeping {
 public:
  // `vault`: its name; empty, or nobody there: nothing is kept, and in the second case `tell` says so. Deposits all
  // units of `state`, which are placed, as changing, unless such memory ends with its process. `more_marks`: beside
  // those of the units.
  Keeping(const std::string& vault, int generation, int rank, RankState& state, const Device& device, int more_marks,
          std::function<void(const std::string&)> tell);
  Marks& marks() { return marks_; }
  bool keeps() const { return no_vault_ || line_; }  // as far as it was to be
  // Another memory: `rank`'s state of `unit`.
  void deposit(int rank, int unit, int slot, int mark, const Allocation& memory);
  // All units hold the state after `step`.
  void mark(std::int64_t step);

 private:
  RankState& state_;
  bool no_vault_;
  Marks marks_;
  std::function<void(const std::string&)> tell_;
  std::optional<VaultLine> line_;
};

}  // namespace espalier::torchrt
