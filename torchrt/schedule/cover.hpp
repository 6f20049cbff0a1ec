// Runs of rows or samples that do not overlap. Pure.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

#include "torchrt/range.hpp"

namespace espalier::torchrt {

class Cover {
 public:
  // False when some of the range is there already.
  bool add(Range range) {
    const auto next = runs_.lower_bound(range.first);
    if (next != runs_.end() && next->first < range.end()) return false;
    if (next != runs_.begin() && std::prev(next)->second > range.first) return false;
    runs_[range.first] = range.end();
    total_ += range.count;
    return true;
  }
  bool overlaps(Range range) const { return !Cover(*this).add(range); }
  bool contains(Range range) const {  // as one run that was added
    const auto found = runs_.find(range.first);
    return found != runs_.end() && found->second == range.end();
  }
  std::int64_t total() const { return total_; }

 private:
  std::map<std::int64_t, std::int64_t> runs_;
  std::int64_t total_ = 0;
};

}  // namespace espalier::torchrt
