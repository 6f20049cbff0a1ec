#include "torchrt/comm/ordered.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace espalier::torchrt {

namespace {

struct Bfloat16 {
  std::uint16_t bits;
};

float widen(Bfloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
template <class Number>
Number widen(Number value) {
  return value;
}

void narrow(Bfloat16& to, float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) to.bits = 0x7fc0;
  else to.bits = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
template <class Number>
void narrow(Number& to, Number value) {
  to = value;
}

// A block of sums stays in the cache while one part after another is added to it.
constexpr std::size_t kBlock = 1024;

template <class Element, class Wide>
void combine(Combine how, std::span<const Buffer> parts, Buffer into) {
  Wide block[kBlock];
  for (std::size_t first = 0; first < into.count; first += kBlock) {
    const std::size_t size = std::min(kBlock, into.count - first);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Element* from = static_cast<const Element*>(parts[p].data) + first;
      if (p == 0)
        for (std::size_t i = 0; i < size; ++i) block[i] = widen(from[i]);
      else if (how == Combine::sum)
        for (std::size_t i = 0; i < size; ++i) block[i] += widen(from[i]);
      else
        for (std::size_t i = 0; i < size; ++i) block[i] = std::max(block[i], Wide{widen(from[i])});
    }
    Element* to = static_cast<Element*>(into.data) + first;
    for (std::size_t i = 0; i < size; ++i) narrow(to[i], block[i]);
  }
}

}  // namespace

void combine_in_order(Combine how, std::span<const Buffer> parts, Buffer into) {
  switch (into.type) {
    case DataType::float32:
      return combine<float, float>(how, parts, into);
    case DataType::bfloat16:
      return combine<Bfloat16, float>(how, parts, into);
    case DataType::int64:
      return combine<std::int64_t, std::int64_t>(how, parts, into);
    case DataType::float64:
      return combine<double, double>(how, parts, into);
  }
}

}  // namespace espalier::torchrt
