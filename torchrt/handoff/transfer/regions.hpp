// Which elements of the whole tensors a shard holds, as rectangles of rows and columns. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "torchrt/model/units.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// Of a whole tensor; one dimension: columns = {0, 1}.
struct Rectangle {
  Range rows, columns;
  std::int64_t area() const { return rows.count * columns.count; }
  bool operator==(const Rectangle&) const = default;
};

// What a shard has of one of its tensors within the elements `held` of its unit (all of them, or a ZeRO part): disjoint
// rectangles, in the order of memory. Run by run of whole rows, so there are few.
std::vector<Rectangle> regions(const TensorSpec& tensor, Range held);

// The element of the unit's parameters where a shard keeps (row, column) of the whole tensor, which it must hold.
// Neighbouring rows of the whole tensor that one shard holds lie columns.count elements apart.
std::int64_t place_of(const TensorSpec& tensor, std::int64_t row, std::int64_t column);

}  // namespace espalier::torchrt
