// Thinning of long rows of alternatives that differ little. All of the first ones are looked at,
// fewer of the later ones. The work grows with the logarithm of the row at first, and later with a
// sixteenth of its length.
#pragma once

#include <cstddef>

namespace espalier {

// Rows up to this length are short and stay whole.
inline constexpr std::size_t kWhole = 8;

// True for 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, ... In Algorithm 2's rounds places
// are counted anew after each choice, so every place can still be reached.
constexpr bool looked_at(std::size_t place) {
  const std::size_t step = place <= 4 ? 1 : place <= 8 ? 2 : place <= 16 ? 4 : place <= 32 ? 8 : 16;
  return place % step == 0;
}

}  // namespace espalier
