#include "torchrt/safetensors/element_type.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace espalier::torchrt {

namespace {

struct Known {
  ElementType type;
  const char* name;
  std::size_t size;
};

constexpr std::array<Known, 15> kKnown = {{{ElementType::f64, "F64", 8},
                                           {ElementType::f32, "F32", 4},
                                           {ElementType::f16, "F16", 2},
                                           {ElementType::bf16, "BF16", 2},
                                           {ElementType::i64, "I64", 8},
                                           {ElementType::i32, "I32", 4},
                                           {ElementType::i16, "I16", 2},
                                           {ElementType::i8, "I8", 1},
                                           {ElementType::u64, "U64", 8},
                                           {ElementType::u32, "U32", 4},
                                           {ElementType::u16, "U16", 2},
                                           {ElementType::u8, "U8", 1},
                                           {ElementType::boolean, "BOOL", 1},
                                           {ElementType::f8_e4m3, "F8_E4M3", 1},
                                           {ElementType::f8_e5m2, "F8_E5M2", 1}}};

const Known& known(ElementType type) { return kKnown[static_cast<std::size_t>(type)]; }

}  // namespace

std::size_t size_of(ElementType type) { return known(type).size; }
const char* name_of(ElementType type) { return known(type).name; }

std::optional<ElementType> element_type(const std::string& name) {
  for (const Known& each : kKnown)
    if (name == each.name) return each.type;
  return std::nullopt;
}

float f16_to_float(std::uint16_t bits) {
  const float sign = (bits & 0x8000u) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f)
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
}

}  // namespace espalier::torchrt
