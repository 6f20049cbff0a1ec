// Exchanges rows of the tied embedding table's gradient. The stages of the embedding and of the head
// hold one copy each, cut by the stage's TP degree and repeated by its DP degree. Pure.
#pragma once

#include <vector>

#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// The operations of one rank, between the end of its reductions and `agree`; empty when it holds no
// copy. Both copies receive the other's rows once; replicas share the sending evenly. Rows travel
// block by block, so that only received blocks need memory beside the gradients.
std::vector<Op> tied_operations(const Layout& layout, const ScheduleOptions& options, int rank);

}  // namespace espalier::torchrt
