// One number for all weights of a model, the same for every layout. Pure.
#pragma once

#include <cstdint>

#include "torchrt/model/state_layout.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// One shard's part of the checksum: the sum, modulo 2^64, of a hash of each element's name, place
// in the whole tensor and bits. The model's checksum is the sum over shards that together hold
// every element once. So tensors that are the same on all TP ranks count on TP rank 0, and the tied
// table counts in unit 0. `parameters`: spec.floats elements on the host.
std::uint64_t weights_checksum(const UnitSpec& spec, DataType type, const void* parameters);

}  // namespace espalier::torchrt
