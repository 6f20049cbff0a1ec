// Roots of increasing functions, for the inversion of the model's times. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace espalier {

// Returns x in [low, high] with f(x) = target for an increasing, continuous f. Without such an x it
// returns the nearer end. Regula falsi with the Illinois rule: one step for linear functions, and
// never much slower than bisection.
template <class Function>
double increasing_root(Function f, double target, double low, double high) {
  double below = f(low) - target, above = f(high) - target;
  if (below >= 0) return low;
  if (above <= 0) return high;
  const double precision = 1e-13 * std::max(std::abs(low), std::abs(high));
  for (int step = 0, stuck = 0; step < 200 && high - low > precision; ++step) {
    // If one side does not move in three steps, the interval is halved.
    const double x = std::abs(stuck) >= 3 ? (low + high) / 2 : (low * above - high * below) / (above - below);
    if (std::abs(stuck) >= 3) stuck = 0;
    const double value = f(x) - target;
    if (value == 0 || x <= low || x >= high) return x;
    if (value < 0) {
      low = x, below = value;
      stuck = stuck < 0 ? stuck - 1 : -1;
      if (stuck < -1) above /= 2;
    } else {
      high = x, above = value;
      stuck = stuck > 0 ? stuck + 1 : 1;
      if (stuck > 1) below /= 2;
    }
  }
  return (low + high) / 2;
}

// The same on [0, infinity) for a function that grows without bound. `guess` > 0 is the first upper
// end.
template <class Function>
double increasing_root_above_zero(Function f, double target, double guess) {
  double high = guess;
  while (f(high) < target && high < 1e300) high *= 4;
  return increasing_root(f, target, 0.0, high);
}

}  // namespace espalier
