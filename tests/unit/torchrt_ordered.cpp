#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "torchrt/comm/ordered.hpp"

using namespace espalier::torchrt;

namespace {

template <class Number>
std::vector<Number> combined(Combine how, std::vector<std::vector<Number>> parts, DataType type, std::size_t into = 0) {
  std::vector<Buffer> buffers;
  for (std::vector<Number>& part : parts) buffers.push_back({part.data(), part.size(), type});
  combine_in_order(how, buffers, buffers[into]);
  return parts[into];
}

// Exact only for a value that bfloat16 holds.
std::uint16_t bfloat16(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }

}  // namespace

TEST_CASE("sums are made in the order of the parts, wherever the result goes") {
  const float tiny = 0x1p-25F;
  for (std::size_t into = 0; into < 3; ++into) {
    CHECK(combined<float>(Combine::sum, {{1.0F}, {tiny}, {tiny}}, DataType::float32, into)[0] == 1.0F);
    CHECK(combined<float>(Combine::sum, {{tiny}, {tiny}, {1.0F}}, DataType::float32, into)[0] == 1.0F + 0x1p-24F);
  }
}

TEST_CASE("long buffers are summed whole") {
  std::vector<std::vector<std::int64_t>> parts(3, std::vector<std::int64_t>(5000));
  for (std::size_t p = 0; p < 3; ++p)
    for (std::size_t i = 0; i < 5000; ++i) parts[p][i] = static_cast<std::int64_t>(i * (p + 1));
  const auto sums = combined(Combine::sum, parts, DataType::int64, 1);
  bool good = true;
  for (std::size_t i = 0; i < 5000; ++i) good = good && sums[i] == static_cast<std::int64_t>(6 * i);
  CHECK(good);
}

TEST_CASE("bfloat16 is summed in float32 and rounded once, to nearest even") {
  const std::uint16_t one = bfloat16(1), part = bfloat16(0x1p-9F);
  // With rounding after each addition, 1 would stay 1.
  CHECK(combined<std::uint16_t>(Combine::sum, {{one}, {part}, {part}, {part}}, DataType::bfloat16)[0] ==
        bfloat16(1 + 0x1p-7F));
  CHECK(combined<std::uint16_t>(Combine::sum, {{one}, {part}, {part}}, DataType::bfloat16)[0] == one);
  const std::uint16_t infinity = bfloat16(std::numeric_limits<float>::infinity());
  const auto none = combined<std::uint16_t>(Combine::sum, {{infinity}, {static_cast<std::uint16_t>(infinity | 0x8000)}},
                                            DataType::bfloat16);
  CHECK(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(none[0]) << 16)));
}

TEST_CASE("the maximum is that of all parts") {
  CHECK(combined<double>(Combine::max, {{1, -5}, {0, -2}, {3, -9}}, DataType::float64) == std::vector<double>{3, -2});
}
