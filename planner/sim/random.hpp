// Random numbers that are the same on every machine. The standard fixes the engine's numbers, but
// not the numbers of its distributions.
#pragma once

#include <cstdint>
#include <random>

namespace espalier::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Uniform in [0, 1), with 53 bits.
  double real() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  // Uniform in [0, count).
  std::uint64_t below(std::uint64_t count) {
    // The largest multiple of count that fits. Larger draws would favour the first numbers.
    const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % count;
    std::uint64_t drawn = engine_();
    while (drawn >= limit) drawn = engine_();
    return drawn % count;
  }
  // Mean 0, standard deviation 1: the sum of twelve uniform numbers. Additions round the same way
  // on every machine.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += real();
    return sum;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace espalier::sim
