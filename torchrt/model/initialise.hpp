// Initial parameters by global coordinate (seed, tensor's name, row, column): the same in every layout. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// Fills the shard's parameters. `parameters` has spec.floats elements; the caller sets them to
// zero. Tied tables get the same values. Large tensors are filled by several threads, with the same values by any
// number.
void initialise(const UnitSpec& spec, std::uint64_t seed, std::span<float> parameters);

}  // namespace espalier::torchrt
