#include <cstring>

#include "torchrt/checkpoint/reader.hpp"
#include "torchrt/place_parameters.hpp"

namespace espalier::torchrt {

void load_state(CheckpointReader& checkpoint, const UnitSpec& spec, const StateLayout& state, Device& device,
                void* memory) {
  std::vector<float> values(spec.floats, 0.0F);
  checkpoint.read(spec, StateKind::parameter, {0, static_cast<std::int64_t>(spec.floats)}, values);
  place_parameters(values, state, device, memory);
  const auto load_moment = [&](StateKind kind, std::size_t offset) {
    values.assign(static_cast<std::size_t>(state.shard.count), 0.0F);
    checkpoint.read(spec, kind, state.shard, values);
    device.from_host(static_cast<char*>(memory) + offset, values.data(), state.shard_bytes());
  };
  load_moment(StateKind::first_moment, state.first_moment_offset());
  load_moment(StateKind::second_moment, state.second_moment_offset());
}

}  // namespace espalier::torchrt
