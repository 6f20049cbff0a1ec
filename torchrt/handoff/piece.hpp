// What a hand-off moves as one.
#pragma once

#include <compare>

namespace espalier::torchrt {

// A unit's state on one TP rank.
struct Piece {
  int unit = 0;
  int part = 0;  // TP rank
  auto operator<=>(const Piece&) const = default;
};

}  // namespace espalier::torchrt
