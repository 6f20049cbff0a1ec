// Who exchanges which rows of the tied embedding table's gradient: the first stage and the last hold one copy each, cut
// by their own TP degrees and repeated by their own DP degrees. Pure.
#pragma once

#include <vector>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// The operations of one rank, between the end of its reductions and `agree`; empty when it holds no copy. Both copies
// receive the other's rows once; replicas share the sending evenly. Block after block of rows, so that a received block
// is all that must be held beside the gradients.
std::vector<Op> tied_operations(const Layout& layout, const ScheduleOptions& options, int rank);

}  // namespace espalier::torchrt
