// Memory for communication: an address, a count and a type. Free of torch, MPI and NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "torchrt/range.hpp"

namespace espalier::torchrt {

enum class DataType : std::uint8_t { float32, bfloat16, int64, float64 };

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return 4;
    case DataType::bfloat16:
      return 2;
    case DataType::int64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

// Device memory (host memory in the CPU flavour). The maker owns it.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  std::size_t bytes() const { return count * size_of(type); }
  // Elements [first, first + length).
  Buffer part(std::size_t first, std::size_t length) const {
    return {static_cast<char*>(data) + first * size_of(type), length, type};
  }
  Buffer part(const Range& range) const {
    return part(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count));
  }
};

}  // namespace espalier::torchrt
