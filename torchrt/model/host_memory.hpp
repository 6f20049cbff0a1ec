// How much memory torch's tensors take on the processor. Includes torch.
#pragma once

#include <cstddef>

namespace espalier::torchrt {

// Tensors are counted from now on. Call once, before the first tensor.
void count_host_memory();

// The most bytes held at once since the last reset.
std::size_t most_host_memory();
void reset_most_host_memory();

}  // namespace espalier::torchrt
