#include "tests/gpu/standin/nccl_reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace standin {

namespace {

template <class Number>
void each(void* into, const void* from, std::size_t count, ncclRedOp_t op) {
  auto* const to = static_cast<Number*>(into);
  const auto* const values = static_cast<const Number*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = op == ncclMax ? std::max(to[i], values[i]) : to[i] + values[i];
}

float wide(std::uint16_t bits) {
  const std::uint32_t whole = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &whole, sizeof value);
  return value;
}
std::uint16_t narrow(float value) {  // to the nearest, ties to even
  std::uint32_t whole = 0;
  std::memcpy(&whole, &value, sizeof whole);
  if (value != value) return 0x7fc0;
  return static_cast<std::uint16_t>((whole + 0x7fffu + ((whole >> 16) & 1u)) >> 16);
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt64:
      return each<std::int64_t>(into, from, count, op);
    case ncclFloat64:
      return each<double>(into, from, count, op);
    case ncclFloat32:
      return each<float>(into, from, count, op);
    default:
      break;
  }
  auto* const to = static_cast<std::uint16_t*>(into);
  const auto* const values = static_cast<const std::uint16_t*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    const float a = wide(to[i]), b = wide(values[i]);
    to[i] = narrow(op == ncclMax ? std::max(a, b) : a + b);
  }
}

}  // namespace standin
