// All communication over NCCL, on GPU memory. Work goes on streams; the host waits only where it
// must.
#pragma once

#include <functional>
#include <span>

#include "torchrt/comm/fabric.hpp"

namespace espalier::torchrt {

// into = parts[0] + parts[1] + ..., in this order, on the compute stream (CUDA's default one); see combine_in_order().
using OrderedSum = std::function<void(std::span<const Buffer> parts, Buffer into)>;

// Collective. Communicators are made in the background (non-blocking); the first use waits for
// them. Without `ordered_sum` NCCL adds, in its own order. Uses the thread's current GPU.
std::unique_ptr<Fabric> make_nccl_fabric(World& world, OrderedSum ordered_sum);

}  // namespace espalier::torchrt
