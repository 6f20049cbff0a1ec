#include "launcher/profile/wait_watch.hpp"

#include <exception>
#include <utility>

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kLook{1000};
constexpr int kLooksPerQuestion = 5;  // of the looks at this job, one asks espalierd, too
constexpr int kLostQuestions = 30;    // in a row, before it gives up
}  // namespace

WaitWatch::WaitWatch(wire::Loop& loop, const ProfileQuestions& questions, Callbacks callbacks)
    : questions_(questions), callbacks_(std::move(callbacks)), watch_(loop.every(kLook, [this] { look(); })) {}

// Slurm signals the steps of a job that it preempts, but not its batch script, which this process is.
void WaitWatch::look() {
  try {
    if (const auto own = load_job(questions_.own()); own && own->preempted) return callbacks_.preempted();
    if (looks_++ % kLooksPerQuestion != 0) return;
    if (!questions_.waits()) return callbacks_.over(0, "it waits no longer; its profile job ends");
    lost_ = 0;
  } catch (const std::exception& error) {
    if (++lost_ >= kLostQuestions) callbacks_.over(1, error.what());
  }
}

}  // namespace espalier::launcher
