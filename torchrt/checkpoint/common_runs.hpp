// Which elements two shards of one tensor share. Each shard may be cut in its own way. Pure.
#pragma once

#include <cstdint>
#include <functional>
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

// Elements that lie side by side in both parts. `from` and `to` count within the parts.
struct CommonRun {
  std::int64_t from = 0, to = 0, count = 0;
};

// Calls `visit` with the runs of common elements. Runs that go on in both parts are one. Returns the
// number of common elements.
std::int64_t each_common_run(const ShardPart& from, const ShardPart& to,
                             const std::function<void(const CommonRun&)>& visit);

}  // namespace espalier::torchrt
