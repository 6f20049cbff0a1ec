#include "launcher/job/phase_deadline.hpp"

#include <algorithm>
#include <cmath>

#include "launcher/job/grace.hpp"

namespace espalier::launcher {
namespace {

// A rank server that has not come within start_seconds is given up (ServedRanks), and World tells of it a moment later.
// The end of the phase waits for that word: it names the GPUs that later attempts leave out. The end of the phase
// destroys the world that would tell it.
constexpr std::chrono::milliseconds kServersFirst{1000};

}  // namespace

PhaseDeadline::PhaseDeadline(wire::Loop& loop, const wire::Config& config, Callbacks callbacks)
    : loop_(loop), config_(config), callbacks_(std::move(callbacks)) {}

void PhaseDeadline::set(JobPhase phase, const Situation& now) {
  // A boundary is a step away, and a step may take longer than the site has thought of.
  const int at_a_boundary =
      boundary_seconds(config_.switch_seconds, config_.hang_seconds, now.step_seconds, now.method);
  const int start = std::max(config_.start_seconds, now.start_seconds);
  switch (phase) {
    case JobPhase::launching:
      return give_up(std::max(start, config_.hang_seconds), Event::current_failed,
                     "the program spoke the worker protocol, and not all of its ranks were ready", kServersFirst);
    case JobPhase::starting:
      return give_up(start + static_cast<int>(std::lround(2 * now.early_seconds)), Event::next_failed,
                     "the next generation was not ready", kServersFirst);
    case JobPhase::ready:
      return give_up(at_a_boundary, Event::next_failed, "the running generation did not reach a boundary");
    case JobPhase::switching:
      return give_up(at_a_boundary, Event::next_failed, "the state did not arrive");
    case JobPhase::recovering:
      if (!now.attempts) return reset();
      if (!now.loads) return wait_for_start(start, Event::next_failed, "the next generation was not ready in time");
      return give_up(std::max(config_.switch_seconds, config_.hang_seconds), Event::next_failed,
                     "the state was not there");
    case JobPhase::committed:
      return give_up(10, Event::old_gone, "the old generation did not leave");
    case JobPhase::saving:
      return give_up(at_a_boundary, Event::next_failed, "the running generation did not save its state at a boundary");
    case JobPhase::replanning:
      return give_up(at_a_boundary, Event::next_failed,
                     "the running generation did not reach a boundary to go on with another plan");
    case JobPhase::restarting:
      return wait_for_start(start, Event::current_lost,
                            "the old generation has ended, and the next one was not ready in time");
    default:
      reset();
  }
}

void PhaseDeadline::give_up(int seconds, Event event, const char* what, std::chrono::milliseconds later) {
  timer_.start(std::chrono::seconds(seconds) + later, [this, seconds, event, what] {
    callbacks_.over(event, std::string(what) + " within " + std::to_string(seconds) + " s");
  });
}

// Once all workers of the next generation are there they may read a checkpoint, which takes its time.
void PhaseDeadline::wait_for_start(int seconds, Event event, const char* why) {
  const std::chrono::milliseconds start = std::chrono::seconds(seconds) + kServersFirst;
  timer_.start(start, [this, start, event, why] {
    const std::chrono::milliseconds more = std::chrono::seconds(config_.hang_seconds) - start;
    if (!callbacks_.everyone_is_there() || more <= more.zero()) return callbacks_.over(event, why);
    timer_.start(more, [this, event, why] { callbacks_.over(event, why); });
  });
}

}  // namespace espalier::launcher
