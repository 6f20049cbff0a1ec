// The element types of the safetensors format, and conversions of their numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace espalier::torchrt {

// Parameters are read as F32, F16 or BF16. A file may hold the other types too (masks, counters).
enum class ElementType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2
};

std::size_t size_of(ElementType type);
const char* name_of(ElementType type);  // as in a file's header: "F32"
std::optional<ElementType> element_type(const std::string& name);

inline float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Rounds to the nearest, ties to even. A NaN stays a NaN.
inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_float(std::uint16_t bits);

}  // namespace espalier::torchrt
