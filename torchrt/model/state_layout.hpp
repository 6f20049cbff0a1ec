// The places of a unit's parameters and optimizer state in its allocation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/model/units.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// The layout of one allocation: [parameters][optimizer]. In float32 the parameters are followed by
// the moments m and v of `shard`. In bfloat16 the bfloat16 parameters are followed by the float32
// master weights, m and v of `shard`.
struct StateLayout {
  DataType dtype = DataType::float32;
  std::size_t floats = 0;  // of the UnitSpec
  // The elements whose optimizer state is here: all, or with ZeRO-1 this replica's part.
  Range shard;
  std::size_t parameter_bytes() const { return floats * size_of(dtype); }
  bool has_master() const { return dtype == DataType::bfloat16; }
  std::size_t shard_bytes() const { return static_cast<std::size_t>(shard.count) * sizeof(float); }
  std::size_t master_offset() const { return parameter_bytes(); }  // only where has_master()
  std::size_t first_moment_offset() const { return parameter_bytes() + (has_master() ? shard_bytes() : 0); }
  std::size_t second_moment_offset() const { return first_moment_offset() + shard_bytes(); }
  std::size_t bytes() const { return second_moment_offset() + shard_bytes(); }
  bool operator==(const StateLayout&) const = default;
};

// A unit's gradient in memory: float32 values. With accuracy = bitwise the same values as int64
// follow.
constexpr std::size_t gradient_integers_offset(std::size_t floats) { return (floats * sizeof(float) + 7) / 8 * 8; }
constexpr std::size_t gradient_bytes(std::size_t floats, bool bitwise) {
  return bitwise ? gradient_integers_offset(floats) + floats * sizeof(std::int64_t) : floats * sizeof(float);
}

StateLayout state_layout(const UnitSpec& spec, DataType dtype, int zero_ranks = 1, int zero_rank = 0);

// ZeRO-1: the part of a unit's `floats` elements that replica `rank` of `ranks` updates. Parts are
// whole pieces of kAlignElements, as equal as possible, in order and without a gap. A tiny unit has
// empty parts.
Range zero_part(std::size_t floats, int ranks, int rank);

}  // namespace espalier::torchrt
