#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "launcher/state_machine.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {
bool does(const Row& row, Action action) {
  return std::find(row.actions.begin(), row.actions.end(), action) != row.actions.end();
}
}  // namespace

TEST_CASE("one row per state and event") {
  std::set<std::pair<JobPhase, Event>> seen;
  for (const Row& row : transition_table()) CHECK(seen.insert({row.from, row.on}).second);
}

TEST_CASE("from every state of a change there is a way back to running on the old generation") {
  for (const JobPhase phase : {JobPhase::starting, JobPhase::ready, JobPhase::switching}) {
    const Row* row = transition(phase, Event::next_failed);
    REQUIRE(row != nullptr);
    CHECK(row->to == JobPhase::running);
    CHECK(does(*row, Action::abort_next));
    CHECK(does(*row, Action::cancel_acquired));
    // Only a generation that was told to stop must be told to go on.
    CHECK(does(*row, Action::resume_old) == (phase != JobPhase::starting));
  }
  CHECK(transition(JobPhase::acquiring, Event::acquire_failed)->to == JobPhase::running);
}

TEST_CASE(
    "every state but the last ends on cancellation, on the loss of the running world and at the end of training") {
  for (int i = 0; i < static_cast<int>(JobPhase::ending); ++i)
    for (const Event event : {Event::terminate, Event::current_lost, Event::current_finished}) {
      const Row* row = transition(static_cast<JobPhase>(i), event);
      REQUIRE(row != nullptr);
      CHECK(row->to == JobPhase::ending);
      CHECK(row->actions.back() == Action::end_job);
    }
  for (const Row& row : transition_table()) CHECK(row.from != JobPhase::ending);
}

TEST_CASE("by checkpoint the old generation ends before the next one starts, and goes on when it could not save") {
  for (const auto& [from, event] :
       {std::pair{JobPhase::running, Event::propose_restart}, std::pair{JobPhase::acquiring, Event::granted_restart}})
    CHECK(transition(from, event)->to == JobPhase::saving);
  const Row* saved = transition(JobPhase::saving, Event::old_switched);
  REQUIRE(saved != nullptr);
  CHECK(saved->to == JobPhase::restarting);
  CHECK(saved->actions == std::vector{Action::end_old, Action::start_next});
  for (const Event event : {Event::next_failed, Event::notice_breaks}) {
    const Row* failed = transition(JobPhase::saving, event);
    REQUIRE(failed != nullptr);
    CHECK(failed->to == JobPhase::running);
    CHECK(does(*failed, Action::resume_old));
    CHECK(transition(JobPhase::restarting, event) == nullptr);  // there is nothing to go back to
  }
}

// Any order of events: the actions must keep the job's invariants (never two live generations, never none, no extension
// acquired twice or left behind).
TEST_CASE("random histories keep one live generation and account for every acquisition") {
  std::mt19937 random(7);
  for (int history = 0; history < 20000; ++history) {
    JobPhase phase = JobPhase::launching;
    bool old = true, next = false, stopped = false, acquired = false, reported = true, ended = false;
    for (int i = 0; i < 40 && !ended; ++i) {
      const Row* row = transition(phase, static_cast<Event>(random() % 16));
      if (row == nullptr) continue;
      phase = row->to;
      for (const Action action : row->actions) {
        const bool needs_next = action == Action::abort_next || action == Action::commit ||
                                (action == Action::send_switch && phase != JobPhase::saving);
        const bool needs_stopped = action == Action::send_load || action == Action::resume_old ||
                                   action == Action::commit || action == Action::end_old;
        const bool reports = action == Action::report_aborted || action == Action::report_committed;
        if (needs_next) CHECK(next);
        if (needs_stopped) CHECK(stopped);
        if (reports) CHECK(!reported);
        if (action == Action::submit_extensions) CHECK(!acquired);
        if (action == Action::start_next) CHECK(!next);
        if (action == Action::send_switch) CHECK(!stopped);

        if (action == Action::submit_extensions) acquired = true;
        if (action == Action::submit_extensions || action == Action::start_next || action == Action::send_switch)
          reported = false;
        if (action == Action::resume_old) CHECK(old);
        if (action == Action::end_old) old = false;
        if (action == Action::commit) old = true;
        if (action == Action::start_next) next = true;
        if (action == Action::send_switch) stopped = true;
        if (action == Action::abort_next || action == Action::commit) next = false;
        if (action == Action::resume_old || action == Action::commit) stopped = false;
        if (action == Action::cancel_acquired || action == Action::commit) acquired = false;
        if (reports) reported = true;
        if (action == Action::end_job) ended = true;
      }
      if (phase == JobPhase::running) {
        CHECK(!next);
        CHECK(old);
        CHECK(!stopped);
        CHECK(!acquired);
        CHECK(reported);
      }
    }
  }
}
