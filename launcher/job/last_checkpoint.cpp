#include "launcher/job/last_checkpoint.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace espalier::launcher {
namespace {
constexpr double kLead = 120;         // seconds
constexpr double kMostBetween = 300;  // seconds
constexpr double kAskEvery = 60;      // seconds
}  // namespace

double last_checkpoint_lead(double limit_seconds, double step_seconds, double between_seconds) {
  const double usual = std::min(kLead, limit_seconds / 10);
  const double needed = 2 * (step_seconds + std::min(between_seconds, kMostBetween));
  return std::min(std::max(usual, needed), limit_seconds / 2);
}

LastCheckpoint::LastCheckpoint(const JobContext& context, Callbacks callbacks)
    : context_(context), callbacks_(std::move(callbacks)), ends_(context.ends), limit_minutes_(context.limit_minutes) {}

void LastCheckpoint::look(double now) {
  if (context_.movable || context_.ends == 0) return;
  if (asked_at_ == 0) asked_at_ = now;  // the context is Slurm's own word
  if (now - asked_at_ >= kAskEvery) {
    asked_at_ = now;
    callbacks_.ask();
  }
  if (told_ || ends_ == 0 || !callbacks_.trains()) return;
  const double left = static_cast<double>(ends_) - now;
  if (left > last_checkpoint_lead(60.0 * static_cast<double>(limit_minutes_), callbacks_.step_seconds(),
                                  callbacks_.between_seconds()))
    return;
  told_ = true;
  spdlog::info(
      "espalier: launch: the job's time limit ends it in {:.0f} s: a checkpoint is asked for (without "
      "checkpoint.directory none is written)",
      std::max(left, 0.0));
  callbacks_.ends(true);
}

void LastCheckpoint::seen(std::time_t ends, long limit_minutes) {
  const bool later = ends == 0 || ends > ends_;
  ends_ = ends;
  limit_minutes_ = limit_minutes;
  if (later && std::exchange(told_, false)) callbacks_.ends(false);
}

}  // namespace espalier::launcher
