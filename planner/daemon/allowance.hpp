// Limits how often something may be done. An allowance holds permissions; new ones come with time.
// Pure.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>

namespace espalier {

class Allowance {
 public:
  // `most`: permissions held at the start, and the most that can gather unused. `per_second`: new
  // permissions per second.
  struct Rate {
    double most = 1, per_second = 1;
  };

  // Takes `cost` permissions. False: too few are left. `now` in seconds. A clock that is set back
  // gives nothing and takes nothing.
  bool take(double now, const Rate& rate, double cost = 1) {
    settle(now, rate);
    if (used_ + cost > rate.most) return false;
    used_ += cost;
    return true;
  }
  // Whether any permission is left. For work whose cost is known only afterwards.
  bool left(double now, const Rate& rate) {
    settle(now, rate);
    return used_ < rate.most;
  }
  // Takes what such work has cost. The allowance may be overdrawn by it.
  void charge(double now, const Rate& rate, double cost) {
    settle(now, rate);
    used_ += cost;
  }
  // Seconds until left() holds.
  double wait_left(double now, const Rate& rate) {
    settle(now, rate);
    return used_ < rate.most ? 0 : (used_ - rate.most) / rate.per_second + 1e-3;
  }
  // Seconds from the last take() until the next permission.
  double wait(const Rate& rate) const { return std::max(0.0, (used_ + 1 - rate.most) / rate.per_second); }
  // Whether the allowance is full again, so that a fresh one in its place gives no more.
  bool unused(double now, const Rate& rate) const { return used_ <= (now - at_) * rate.per_second; }

 private:
  void settle(double now, const Rate& rate) {
    used_ = std::max(0.0, used_ - std::max(0.0, now - at_) * rate.per_second);
    at_ = now;
  }
  double used_ = 0, at_ = 0;
};

// One allowance for each user, over all the user's connections and jobs. A connection or a job that
// ends and comes again starts with what was left.
class Spending {
 public:
  // `per_job` is added for each of the user's jobs. The sum is at most `whole`.
  Spending(Allowance::Rate own, Allowance::Rate per_job, Allowance::Rate whole = {kNoLimit, kNoLimit})
      : own_(own), per_job_(per_job), whole_(whole) {}

  bool take(uid_t user, std::size_t jobs, double now, double cost = 1) {
    return of(user, now).take(now, rate(jobs), cost);
  }
  bool left(uid_t user, std::size_t jobs, double now) { return of(user, now).left(now, rate(jobs)); }
  double wait_left(uid_t user, std::size_t jobs, double now) { return of(user, now).wait_left(now, rate(jobs)); }
  void charge(uid_t user, std::size_t jobs, double now, double cost) { of(user, now).charge(now, rate(jobs), cost); }

 private:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kSwept = 64;  // users whose allowance is full again are forgotten from here on

  Allowance::Rate rate(std::size_t jobs) const {
    const auto count = static_cast<double>(jobs);
    return {std::min(whole_.most, own_.most + count * per_job_.most),
            std::min(whole_.per_second, own_.per_second + count * per_job_.per_second)};
  }
  Allowance& of(uid_t user, double now) {
    if (users_.size() > kSwept && !users_.contains(user))
      std::erase_if(users_, [&](const auto& entry) { return entry.second.unused(now, own_); });
    return users_[user];
  }

  Allowance::Rate own_, per_job_, whole_;
  std::map<uid_t, Allowance> users_;
};

}  // namespace espalier
