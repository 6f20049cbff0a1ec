#include "planner/daemon/user_log.hpp"

#include <cmath>

#include "planner/daemon/clock.hpp"

namespace espalier {
namespace {

constexpr double kMinute = 60;

void tell(uid_t user, std::size_t left_out) {
  if (left_out > 0)
    spdlog::warn("uid {}: {} more lines of the log about what it did within a minute were left out", user, left_out);
}

}  // namespace

bool UserLog::may_log(uid_t user) {
  const double now = clock_seconds();
  Minute& minute = minutes_.try_emplace(user, Minute{now, 0, 0}).first->second;
  if (std::abs(now - minute.began) >= kMinute) {
    tell(user, minute.left_out);
    minute = {now, 0, 0};
  }
  if (minute.lines < kLines || minute.lines < kLines + kLinesOfJob * jobs_of_(user)) {
    ++minute.lines;
    return true;
  }
  ++minute.left_out;
  return false;
}

void UserLog::tell_left_out(double now) {
  std::erase_if(minutes_, [&](const auto& entry) {
    if (std::abs(now - entry.second.began) < kMinute) return false;
    tell(entry.first, entry.second.left_out);
    return true;
  });
}

}  // namespace espalier
