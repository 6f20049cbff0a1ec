// Sums and maxima in a fixed order, on the host. Pure.
#pragma once

#include <span>

#include "torchrt/comm/buffer.hpp"

namespace espalier::torchrt {

enum class Combine { sum, max };

// into[i] = parts[0][i] + parts[1][i] + ..., in this order (or the maximum). bfloat16 is added in
// float32 and rounded once, to nearest even. All parts have the count and type of `into`; `into`
// may be one of them.
void combine_in_order(Combine how, std::span<const Buffer> parts, Buffer into);

}  // namespace espalier::torchrt
