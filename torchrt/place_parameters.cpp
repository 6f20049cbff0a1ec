#include "torchrt/place_parameters.hpp"

#include <algorithm>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/safetensors/element_type.hpp"

namespace espalier::torchrt {

void place_parameters(std::span<const float> parameters, const StateLayout& state, Device& device, void* memory) {
  ESPALIER_INVARIANT(parameters.size() == state.floats);
  if (!state.has_master()) return device.from_host(memory, parameters.data(), parameters.size_bytes());
  std::vector<std::uint16_t> rounded(parameters.size());
  std::transform(parameters.begin(), parameters.end(), rounded.begin(), float_to_bf16);
  device.from_host(memory, rounded.data(), state.parameter_bytes());
  device.from_host(static_cast<char*>(memory) + state.master_offset(), parameters.data() + state.shard.first,
                   state.shard_bytes());
}

}  // namespace espalier::torchrt
