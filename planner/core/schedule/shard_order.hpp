// Which GPU gets which rank, where the ranks divide the training's state evenly among themselves (FSDP): as little of
// the state as possible shall change its GPU when the number of ranks changes.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/core/plan.hpp"

namespace espalier {

// Above so many GPUs no order is sought: the time that it takes grows with their cube.
inline constexpr std::size_t kMostOrdered = 512;

// By new rank: the place in `after` of its GPU. `before`: the GPUs of the present ranks. Rank r of n holds the r-th of
// n equal parts of the state. The least bytes go to other nodes, then the least to other GPUs, among all orders with
// after[0] at rank 0. Among equal ones more GPUs keep their place in `after`.
std::vector<std::size_t> shard_order(const std::vector<GpuId>& before, const std::vector<GpuId>& after);

}  // namespace espalier
