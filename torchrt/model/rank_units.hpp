// A rank's units. Includes torch.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/model/unit.hpp"

namespace espalier::torchrt {

// For one thread. Asking for a unit that is not the rank's breaks an invariant.
class RankUnits {
 public:
  // Ascending, by number.
  void add(std::unique_ptr<Unit> unit) { units_.push_back(std::move(unit)); }
  Unit& at(int number) const {
    const auto found = std::lower_bound(units_.begin(), units_.end(), number,
                                        [](const auto& unit, int wanted) { return unit->number() < wanted; });
    ESPALIER_INVARIANT(found != units_.end() && (*found)->number() == number);
    return **found;
  }
  Unit& last() const { return *units_.back(); }
  auto begin() const { return units_.begin(); }
  auto end() const { return units_.end(); }

 private:
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace espalier::torchrt
