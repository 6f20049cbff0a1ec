// Tells all ranks what memory is left on all nodes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "torchrt/recovery/choose_source.hpp"

namespace espalier::torchrt {

// Gives every rank all ranks' bytes, by rank. Collective.
using GatherBytes = std::function<std::vector<std::vector<char>>(std::span<const char>)>;

// `here`: what rank `rank` found on its node. Returns what all ranks found, each memory once, in
// order. Memory that two ranks saw at different steps counts as torn. The ranks of a node usually
// find the same. The first rank of those that found the same sends it, the others send a checksum
// only. Ranks that found different memory all send it, also when they are on one node. Collective.
std::vector<Held> exchange_inventories(std::vector<Held> here, int rank, const GatherBytes& gather);

}  // namespace espalier::torchrt
