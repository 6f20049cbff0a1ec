#include "planner/core/arrivals.hpp"

#include <algorithm>

namespace espalier {

void Arrivals::add(Submission submission) {
  if (!recent_.empty()) submission.time = std::max(submission.time, recent_.back().time);
  recent_.push_back(submission);
  while (recent_.front().time < submission.time - kMostSeconds) recent_.pop_front();
  while (recent_.size() > kMost) {
    since_ = std::max(since_, recent_.front().time);
    recent_.pop_front();
  }
}

double Arrivals::rate(double now, double window, int least_gpus) const {
  const double from = std::max(now - std::min(window, kMostSeconds), since_);
  if (now <= from) return 0;
  long count = 0;
  for (auto one = recent_.rbegin(); one != recent_.rend() && one->time > from; ++one)
    if (one->time <= now && one->gpus >= least_gpus) ++count;
  return static_cast<double>(count) / (now - from);
}

}  // namespace espalier
