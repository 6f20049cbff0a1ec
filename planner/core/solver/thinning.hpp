// Long rows of alternatives that differ little: all of the first, fewer of the later ones, so that work grows with the
// logarithm of the row at first and a sixteenth of it later.
#pragma once

#include <cstddef>

namespace espalier {

// Rows of up to so many are short.
inline constexpr std::size_t kWhole = 8;

// 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, ... Of a row that starts anew after each choice (Algorithm 2's rounds)
// nothing is out of reach.
constexpr bool looked_at(std::size_t place) {
  const std::size_t step = place <= 4 ? 1 : place <= 8 ? 2 : place <= 16 ? 4 : place <= 32 ? 8 : 16;
  return place % step == 0;
}

}  // namespace espalier
