// Copies the elements that two shards of one tensor share. Each shard may be cut in its own way.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "torchrt/range.hpp"

namespace espalier::torchrt {

// A part of a shard. The shard is the concatenation of the row ranges `rows` of the whole tensor,
// restricted to `columns`. The part is the shard's elements `elements`, counted row by row. `rows`
// must outlive the part.
struct ShardPart {
  const std::vector<Range>* rows = nullptr;
  Range columns, elements;
};

// False: the parts share no element. True: their rows and columns meet, but they may still share no
// element.
bool overlap(const ShardPart& a, const ShardPart& b);

// Copies the common elements from `source` to `target` and returns their number. `source` points at
// element from.elements.first: float32 at any alignment. `target` points at element
// to.elements.first.
std::int64_t copy_common(const ShardPart& from, const std::byte* source, const ShardPart& to, float* target);

}  // namespace espalier::torchrt
