#include "torchrt/model/state_layout.hpp"

namespace espalier::torchrt {

StateLayout state_layout(const UnitSpec& spec, DataType dtype, int zero_ranks, int zero_rank) {
  return {dtype, spec.floats, zero_part(spec.floats, zero_ranks, zero_rank)};
}

Range zero_part(std::size_t floats, int ranks, int rank) {
  const std::int64_t piece = static_cast<std::int64_t>(kAlignElements);
  const Range pieces = even_part(static_cast<std::int64_t>(floats) / piece, ranks, rank);
  return {pieces.first * piece, pieces.count * piece};
}

}  // namespace espalier::torchrt
