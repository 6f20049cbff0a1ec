#include "torchrt/weights_checksum.hpp"

#include <cstring>

#include "torchrt/random.hpp"

namespace espalier::torchrt {

namespace {

std::uint64_t bits_at(const void* parameters, DataType type, std::size_t index) {
  const std::size_t size = size_of(type);
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(parameters) + index * size, size);
  return bits;
}

}  // namespace

std::uint64_t weights_checksum(const UnitSpec& spec, DataType type, const void* parameters) {
  std::uint64_t sum = 0;
  for (const TensorSpec& tensor : spec.tensors) {
    if ((tensor.replicated() && spec.tp_rank > 0) || (tensor.tied && spec.unit > 0)) continue;
    const std::uint64_t key = hash_name(tensor.hugging_face);
    const std::int64_t width = tensor.global_shape.size() > 1 ? tensor.global_shape[1] : 1;
    std::size_t next = tensor.offset;
    for (const Range& rows : tensor.rows)
      for (std::int64_t row = rows.first; row < rows.end(); ++row)
        for (std::int64_t column = tensor.columns.first; column < tensor.columns.end(); ++column) {
          const std::uint64_t place = mix(key, static_cast<std::uint64_t>(row * width + column));
          sum += mix(place, bits_at(parameters, type, next++));
        }
  }
  return sum;
}

}  // namespace espalier::torchrt
