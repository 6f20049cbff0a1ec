#include "launcher/recovery/step_watch.hpp"

#include <algorithm>
#include <cmath>

#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr auto kStalled = std::chrono::seconds(5);  // a timer that is later shows that this process stood still
}  // namespace

StepWatch::StepWatch(wire::Loop& loop, double hang_seconds, std::function<void(const std::string&)> hangs,
                     double after_last_seconds)
    : loop_(loop), hang_seconds_(hang_seconds), after_last_seconds_(after_last_seconds), hangs_(std::move(hangs)) {}

void StepWatch::stepped(const wire::Step& step) {
  const Time now = wire::steady_now();
  if (seconds_ != 0)  // it is not the first step of a generation
    between_seconds_ =
        std::max(between_seconds_, std::chrono::duration<double>(now - stepped_at_).count() - step.seconds);
  worked_at_ = progress_at_ = stepped_at_ = now;
  step_ = step.step;
  last_seconds_ = step.seconds;
  // A moving average that forgets the first, slower steps of a generation quickly.
  seconds_ = seconds_ == 0 ? step.seconds : 0.7 * seconds_ + 0.3 * step.seconds;
}

void StepWatch::progressed() { worked_at_ = progress_at_ = wire::steady_now(); }

void StepWatch::begin_anew_after(std::int64_t step) {
  begin_anew();
  step_ = step;
}

double StepWatch::longest() const { return std::max(seconds_, last_seconds_); }

double StepWatch::limit() const {
  const double step = std::max(hang_seconds_, 10 * seconds_);
  return all_done() ? std::max(step, after_last_seconds_) : step;
}

void StepWatch::watch(bool trains, std::int64_t total_steps) {
  total_steps_ = total_steps;
  if (!trains) return watch_.reset();
  if (watch_) return;
  progress_at_ = wire::steady_now();
  check();
}

// Time in which this process stood still does not count, e.g. while Slurm had the job suspended.
void StepWatch::check() {
  const auto now = wire::steady_now();
  if (watch_ && now - check_at_ > kStalled) progress_at_ = now;
  const double left = limit() - std::chrono::duration<double>(now - progress_at_).count();
  if (left <= 0) {
    watch_.reset();
    const std::string what =
        all_done() ? "what follows the last step (its checkpoint, a validation)" : "step " + std::to_string(step_ + 1);
    return hangs_(what + " was not done within " + std::to_string(std::lround(limit())) + " s");
  }
  const auto delay = std::chrono::milliseconds(std::lround(left * 1000) + 1);
  check_at_ = now + delay;
  watch_ = loop_.after(delay, [this] { check(); });
}

}  // namespace espalier::launcher
