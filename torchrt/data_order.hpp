// Maps the n-th sample of the whole training to its piece of the data. A pure function of the
// sample's number: there is no state to save or to hand over.
#pragma once

#include <cstdint>

namespace espalier::torchrt {

class DataOrder {
 public:
  // `pieces`: samples in one epoch, >= 1.
  DataOrder(std::uint64_t pieces, std::uint64_t seed);
  // Each epoch visits each piece once, in an order of its own.
  std::uint64_t piece(std::uint64_t sample) const;

 private:
  std::uint64_t permute(std::uint64_t epoch, std::uint64_t position) const;
  std::uint64_t pieces_, seed_;
  int half_bits_;
};

}  // namespace espalier::torchrt
