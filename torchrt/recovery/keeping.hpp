// Deposits a rank's memory in its node's vault, so that the state outlives the rank.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "torchrt/rank_state.hpp"
#include "torchrt/recovery/marks.hpp"
#include "torchrt/recovery/vault_client.hpp"

namespace espalier::torchrt {

// While this object lives, the vault counts the rank as alive. Marks are numbered by unit.
class Keeping {
 public:
  // `vault`: the vault's name. Nothing is kept if it is empty, or if no vault answers; `tell`
  // reports the second case. Deposits all placed units of `state`, marked as changing, unless the
  // device's memory ends with its process. `more_marks`: the number of marks beside those of the
  // units.
  Keeping(const std::string& vault, int generation, int rank, RankState& state, const Device& device, int more_marks,
          std::function<void(const std::string&)> tell);
  Marks& marks() { return marks_; }
  bool keeps() const { return no_vault_ || line_; }  // true as well when there is no vault to use
  // Deposits another memory, with `rank`'s state of `unit`.
  void deposit(int rank, int unit, int slot, int mark, const Allocation& memory);
  // Marks all units: they hold the state after `step`.
  void mark(std::int64_t step);

 private:
  RankState& state_;
  bool no_vault_;
  Marks marks_;
  std::function<void(const std::string&)> tell_;
  std::optional<VaultLine> line_;
};

}  // namespace espalier::torchrt
