// A half-open run of places: rows, columns, elements.
#pragma once

#include <algorithm>
#include <cstdint>

namespace espalier::torchrt {

struct Range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Range&) const = default;
};

// The common part of both; count 0 when there is none.
inline Range intersection(const Range& a, const Range& b) {
  const std::int64_t first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
  return first < end ? Range{first, end - first} : Range{};
}

}  // namespace espalier::torchrt
