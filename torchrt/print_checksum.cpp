#include "torchrt/print_checksum.hpp"

#include <cstdio>

namespace espalier::torchrt {

void print_checksum(RankState& state, const World& world, int generation, std::int64_t step) {
  const std::uint64_t sum = state.checksum();
  if (world.rank() != 0) return;
  std::printf("generation %d after step %lld: weights %016llx\n", generation, static_cast<long long>(step),
              static_cast<unsigned long long>(sum));
  std::fflush(stdout);
}

}  // namespace espalier::torchrt
