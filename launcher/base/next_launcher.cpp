#include "launcher/base/next_launcher.hpp"

#include <utility>

#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr int kLooksPerQuestion = 3;

}  // namespace

void NextLauncher::look() {
  if (looks_++ % kLooksPerQuestion != 0) return;
  slurm_.post([this, job = context_.job, restarts = context_.restarts]() -> std::function<void()> {
    bool newer = false;
    try {
      newer = has_been_requeued(job, restarts);
    } catch (const Error&) {
      // slurmctld is away: asked again later
    }
    return [this, newer] {
      if (newer) found();
    };
  });
}

void NextLauncher::found() {
  if (!stopped_ && !std::exchange(there_, true)) found_();
}

}  // namespace espalier::launcher
