// How often something may be done: a store of permissions that fills up with time. Pure.
#pragma once

#include <algorithm>

namespace espalier {

class Allowance {
 public:
  // `most`: permissions that gather while none is used, as many as at the start; `per_second`: how fast new ones come.
  struct Rate {
    double most = 1, per_second = 1;
  };

  // False: there is none left. `now` in seconds; a clock that is set back gives nothing and takes nothing.
  bool take(double now, const Rate& rate) {
    used_ = std::max(0.0, used_ - std::max(0.0, now - at_) * rate.per_second);
    at_ = now;
    if (used_ + 1 > rate.most) return false;
    used_ += 1;
    return true;
  }
  // Seconds after the last take() until there is one.
  double wait(const Rate& rate) const { return std::max(0.0, (used_ + 1 - rate.most) / rate.per_second); }
  // Whether forgetting it would give nothing away.
  bool unused(double now, const Rate& rate) const { return used_ <= (now - at_) * rate.per_second; }

 private:
  double used_ = 0, at_ = 0;
};

}  // namespace espalier
