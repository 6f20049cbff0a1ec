// The common elements of two shards of one tensor, each cut in its own way. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "torchrt/range.hpp"

namespace espalier::torchrt {

// Elements `elements`, counted row by row, of the shard that is the concatenation of `rows` of the whole tensor, of
// each `columns`. `rows` outlives it.
struct ShardPart {
  const std::vector<Range>* rows = nullptr;
  Range columns, elements;
};

// False: they have nothing in common. True says little: rows and columns meet, the elements need not.
bool overlap(const ShardPart& a, const ShardPart& b);

// Copies what both hold from `source` (the first of from.elements, float32 at any alignment) to `target` (the first of
// to.elements). Returns how many.
std::int64_t copy_common(const ShardPart& from, const std::byte* source, const ShardPart& to, float* target);

}  // namespace espalier::torchrt
