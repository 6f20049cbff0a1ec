// Limits how often something may be done. An allowance holds permissions; new ones come with time.
// Pure.
#pragma once

#include <algorithm>

namespace espalier {

class Allowance {
 public:
  // `most`: permissions held at the start, and the most that can gather unused. `per_second`: new
  // permissions per second.
  struct Rate {
    double most = 1, per_second = 1;
  };

  // Takes one permission. False: none is left. `now` in seconds. A clock that is set back gives
  // nothing and takes nothing.
  bool take(double now, const Rate& rate) {
    used_ = std::max(0.0, used_ - std::max(0.0, now - at_) * rate.per_second);
    at_ = now;
    if (used_ + 1 > rate.most) return false;
    used_ += 1;
    return true;
  }
  // Seconds from the last take() until the next permission.
  double wait(const Rate& rate) const { return std::max(0.0, (used_ + 1 - rate.most) / rate.per_second); }
  // Whether the allowance is full again, so that a fresh one in its place gives no more.
  bool unused(double now, const Rate& rate) const { return used_ <= (now - at_) * rate.per_second; }

 private:
  double used_ = 0, at_ = 0;
};

}  // namespace espalier
