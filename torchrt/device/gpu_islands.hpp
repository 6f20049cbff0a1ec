// Which GPUs reach each other's memory. GPUs of one node may not: cards without NVLink on some boards, or behind
// IOMMUs.
#pragma once

#include <functional>
#include <vector>

namespace espalier::torchrt {

// Of the GPUs that this process can see, in the order of make_device()'s `assigned`: those with the same number reach
// each other's memory. Empty: all do, or there is none. A GPU that has fallen off the bus is alone. Throws Error.
std::vector<int> gpu_islands();

// The same for `gpus` GPUs of which `reach` tells whether the first reaches the second's memory. Each GPU joins the
// first island whose GPUs it reaches and which reach it. Pure.
std::vector<int> islands(int gpus, const std::function<bool(int, int)>& reach);

}  // namespace espalier::torchrt
