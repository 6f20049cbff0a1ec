#include "torchrt/data_order.hpp"

#include "planner/core/error.hpp"
#include "torchrt/random.hpp"

namespace espalier::torchrt {

DataOrder::DataOrder(std::uint64_t pieces, std::uint64_t seed) : pieces_(pieces), seed_(seed), half_bits_(1) {
  ESPALIER_INVARIANT(pieces >= 1);
  while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < pieces) ++half_bits_;
}

std::uint64_t DataOrder::piece(std::uint64_t sample) const { return permute(sample / pieces_, sample % pieces_); }

// A four-round Feistel network permutes [0, 2^(2 half_bits)); walking its cycle until the value is below `pieces`
// restricts it to a permutation of [0, pieces). At most 4 values per piece exist, so the walk is short.
std::uint64_t DataOrder::permute(std::uint64_t epoch, std::uint64_t position) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = position;
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (mix(mix(seed_, epoch * 4 + round), right) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= pieces_);
  return value;
}

}  // namespace espalier::torchrt
