// One number for all weights of a model, whatever the layout. Pure.
#pragma once

#include <cstdint>

#include "torchrt/model/state_layout.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// The share of one shard of a unit: the sum, modulo 2^64, of a hash of each element's name, place in the whole tensor
// and bits. The checksum of the model is the sum over any set of shards that holds every element once: tensors that are
// the same on all TP ranks count on TP rank 0, the tied table in unit 0. `parameters`: spec.floats elements on the
// host.
std::uint64_t weights_checksum(const UnitSpec& spec, DataType type, const void* parameters);

}  // namespace espalier::torchrt
