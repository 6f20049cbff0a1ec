#include "launcher/base/base_time.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {
namespace {

// Slurm counts whole minutes. A call that takes a moment must not cost the last one.
constexpr std::time_t kMoment = 5;

std::time_t earlier(std::time_t a, std::time_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

}  // namespace

void BaseTime::began(std::time_t base_ends) {
  base_ends_ = base_ends;
  if (std::exchange(began_, true)) return;
  trained_until_ = base_ends;
}

void BaseTime::seen(std::time_t base_ends, std::time_t job_ends) {
  job_ends_ = job_ends;
  if (!began_ || base_ends == base_ends_) return;
  const bool limited = base_ends != 0 && base_ends_ != 0 && trained_until_ != 0;
  trained_until_ = limited ? trained_until_ + (base_ends - base_ends_) : base_ends;
  base_ends_ = base_ends;
}

std::time_t BaseTime::ends(std::time_t now) const {
  std::time_t least = last();
  if (!began_ && limit_seconds_ != 0) least = earlier(least, now + limit_seconds_ + kMoment);
  if (most_seconds_ != 0) least = earlier(least, now + most_seconds_ + kMoment);
  return least;
}

std::time_t BaseTime::last() const { return earlier(job_ends_, trained_until_); }

}  // namespace espalier::launcher
