// The elements of whole tensors that a shard holds, as rectangles of rows and columns. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "torchrt/model/units.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// A rectangle of a whole tensor. A tensor of one dimension has columns = {0, 1}.
struct Rectangle {
  Range rows, columns;
  std::int64_t area() const { return rows.count * columns.count; }
  bool operator==(const Rectangle&) const = default;
};

// A shard's rectangles of one tensor, within the elements `held` of its unit (all elements, or a
// ZeRO part). The rectangles are disjoint and in memory's order. Each holds a run of whole rows
// where it can, so there are few.
std::vector<Rectangle> regions(const TensorSpec& tensor, Range held);

// The element of the unit's parameters where a shard keeps (row, column) of the whole tensor. The
// shard must hold it. Neighbouring rows of the whole tensor lie columns.count elements apart if one
// shard holds both.
std::int64_t place_of(const TensorSpec& tensor, std::int64_t row, std::int64_t column);

}  // namespace espalier::torchrt
