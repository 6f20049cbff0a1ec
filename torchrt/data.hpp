// The training data: a file of raw bytes, memory-mapped, cut into pieces of `sequence` tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torchrt/data_order.hpp"

namespace espalier::torchrt {

// Tokens and, for each, the token that follows. `samples` x `sequence`, row by row.
struct Batch {
  std::vector<std::int64_t> tokens, targets;
};

class Data {
 public:
  // Throws Error when the file cannot be read or is shorter than one sample.
  Data(const std::string& path, int sequence, std::uint64_t seed);
  ~Data();
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  // `count` samples from number `first` of the whole training.
  Batch samples(std::uint64_t first, int count) const;

 private:
  const unsigned char* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::size_t sequence_;
  DataOrder order_;
};

}  // namespace espalier::torchrt
