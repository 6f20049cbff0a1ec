#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "launcher/job/state_machine.hpp"

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

TEST_CASE("every state but the last ends on cancellation, when the program fails and at the end of training") {
  for (int i = 0; i < static_cast<int>(JobPhase::ending); ++i)
    for (const Event event : {Event::terminate, Event::current_failed, Event::current_finished}) {
      const Row* row = transition(static_cast<JobPhase>(i), event);
      const bool none_runs =
          static_cast<JobPhase>(i) == JobPhase::recovering || static_cast<JobPhase>(i) == JobPhase::restarting;
      if (none_runs && event == Event::current_finished) {
        CHECK(row == nullptr);  // there is no running world that could finish
        continue;
      }
      REQUIRE(row != nullptr);
      CHECK(row->to == JobPhase::ending);
      CHECK(row->actions.back() == Action::end_job);
    }
  for (const Row& row : transition_table()) CHECK(row.from != JobPhase::ending);
}

TEST_CASE("a launcher that takes a training over recovers it as one that it has lost itself") {
  const Row* row = transition(JobPhase::launching, Event::taken_over);
  REQUIRE(row != nullptr);
  CHECK(row->to == JobPhase::recovering);
  CHECK(row->actions == transition(JobPhase::running, Event::current_lost)->actions);
  CHECK(transition(JobPhase::running, Event::taken_over) == nullptr);
}

TEST_CASE("the loss of the running world leads to a recovery from every state in which it has trained") {
  for (const JobPhase phase :
       {JobPhase::running, JobPhase::acquiring, JobPhase::starting, JobPhase::ready, JobPhase::switching,
        JobPhase::committed, JobPhase::saving, JobPhase::restarting, JobPhase::replanning}) {
    const Row* row = transition(phase, Event::current_lost);
    REQUIRE(row != nullptr);
    CHECK(row->to == JobPhase::recovering);
    REQUIRE(row->actions.size() >= 2);
    // What was under way is given up and told first; nothing of the lost world lives when the next one starts.
    CHECK(row->actions.end()[-2] == Action::abort_current);
    CHECK(row->actions.back() == Action::start_recovery);
    const bool has_next = phase == JobPhase::starting || phase == JobPhase::ready || phase == JobPhase::switching ||
                          phase == JobPhase::restarting;
    CHECK(does(*row, Action::abort_next) == has_next);
    const bool begun = has_next || phase == JobPhase::acquiring || phase == JobPhase::saving;
    CHECK(does(*row, Action::report_aborted) == (begun || phase == JobPhase::replanning));
    CHECK(does(*row, Action::cancel_acquired) == begun);
    CHECK(does(*row, Action::kill_old) == (phase == JobPhase::committed || phase == JobPhase::restarting));
    CHECK(does(*row, Action::report_committed) == (phase == JobPhase::committed));
  }
  CHECK(transition(JobPhase::launching, Event::current_lost)->to == JobPhase::ending);
}

TEST_CASE("a recovery tries again until its generation holds a state or nothing is left") {
  using enum JobPhase;
  const Row* is_ready = transition(recovering, Event::next_ready);
  REQUIRE(is_ready != nullptr);
  CHECK(is_ready->to == recovering);
  CHECK(is_ready->actions == std::vector{Action::send_recover});
  const Row* loaded = transition(recovering, Event::next_loaded);
  REQUIRE(loaded != nullptr);
  CHECK(loaded->to == running);
  CHECK(loaded->actions == std::vector{Action::commit_recovery});
  const Row* failed = transition(recovering, Event::next_failed);
  REQUIRE(failed != nullptr);
  CHECK(failed->to == recovering);
  CHECK(failed->actions == std::vector{Action::abort_next, Action::start_recovery});
  CHECK(transition(recovering, Event::unrecoverable)->to == ending);
  for (const Row& row : transition_table()) CHECK((row.from == recovering || row.on != Event::unrecoverable));
}

TEST_CASE("nothing else is begun during a recovery") {
  for (const Event event : {Event::propose_acquire, Event::propose_direct, Event::granted, Event::acquire_failed,
                            Event::old_switched, Event::old_gone, Event::notice_breaks, Event::current_lost})
    CHECK(transition(JobPhase::recovering, event) == nullptr);
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
  const Row* lost = transition(JobPhase::restarting, Event::current_lost);
  REQUIRE(lost != nullptr);
  CHECK(lost->to == JobPhase::recovering);
  CHECK(lost->actions.back() == Action::start_recovery);
}

TEST_CASE("a plan is taken in place by the running generation, or it trains on with the one that it has") {
  using enum JobPhase;
  const Row* asked = transition(running, Event::propose_in_place);
  REQUIRE(asked != nullptr);
  CHECK(asked->to == replanning);
  CHECK(asked->actions == std::vector{Action::ask_in_place});
  const Row* taken = transition(replanning, Event::old_switched);
  REQUIRE(taken != nullptr);
  CHECK(taken->to == running);
  CHECK(taken->actions == std::vector{Action::go_on_in_place, Action::report_committed});
  for (const Event event : {Event::next_failed, Event::notice_breaks}) {
    const Row* refused = transition(replanning, event);
    REQUIRE(refused != nullptr);
    CHECK(refused->to == running);
    CHECK(refused->actions == std::vector{Action::resume_old, Action::report_aborted});
  }
  for (const JobPhase phase : {launching, acquiring, starting, ready, switching, committed, recovering, saving})
    CHECK(transition(phase, Event::propose_in_place) == nullptr);
}

// Any order of events: the actions must keep the job's invariants (never two live generations, never none, no extension
// acquired twice or left behind).
TEST_CASE("random histories keep one live generation and account for every acquisition") {
  std::mt19937 random(7);
  for (int history = 0; history < 20000; ++history) {
    JobPhase phase = JobPhase::launching;
    bool current = true, next = false, stopped = false, acquired = false, reported = true, ended = false;
    for (int i = 0; i < 40 && !ended; ++i) {
      const Row* row = transition(phase, static_cast<Event>(random() % (static_cast<unsigned>(Event::terminate) + 1)));
      if (row == nullptr) continue;
      const JobPhase from = std::exchange(phase, row->to);
      for (const Action action : row->actions) {
        // Of a recovery a world may not even have started.
        const bool needs_next = (action == Action::abort_next && phase != JobPhase::recovering) ||
                                (action == Action::send_switch && phase != JobPhase::saving) ||
                                action == Action::commit || action == Action::commit_recovery ||
                                action == Action::send_recover;
        const bool needs_current =
            action == Action::send_switch || action == Action::ask_in_place || action == Action::go_on_in_place ||
            action == Action::resume_old || (action == Action::commit && from != JobPhase::restarting) ||
            (action == Action::abort_current && from != JobPhase::restarting) || action == Action::end_old;
        const bool needs_stopped = action == Action::begin_load || action == Action::send_load ||
                                   action == Action::resume_old || action == Action::commit ||
                                   action == Action::end_old || action == Action::go_on_in_place;
        const bool reports = action == Action::report_aborted || action == Action::report_committed;
        if (needs_next) CHECK(next);
        if (needs_current) CHECK(current);
        if (action == Action::start_recovery) CHECK_FALSE((current || next));
        if (action == Action::commit_recovery) CHECK_FALSE(current);
        if (needs_stopped) CHECK(stopped);
        if (reports) CHECK(!reported);
        if (action == Action::submit_extensions) CHECK(!acquired);
        if (action == Action::start_next) CHECK(!next);
        if (action == Action::send_switch || action == Action::ask_in_place) CHECK(!stopped);

        if (action == Action::submit_extensions) acquired = true;
        if (action == Action::submit_extensions || action == Action::start_next || action == Action::send_switch ||
            action == Action::ask_in_place)
          reported = false;
        if (action == Action::end_old) current = false;
        if (action == Action::commit) current = true;
        if (action == Action::start_next || action == Action::start_recovery) next = true;
        if (action == Action::abort_current) current = stopped = false;
        if (action == Action::commit_recovery) current = true;
        if (action == Action::start_recovery) stopped = false;
        if (action == Action::send_switch || action == Action::ask_in_place) stopped = true;
        if (action == Action::abort_next || action == Action::commit || action == Action::commit_recovery) next = false;
        if (action == Action::resume_old || action == Action::commit || action == Action::go_on_in_place)
          stopped = false;
        if (action == Action::cancel_acquired || action == Action::commit) acquired = false;
        if (reports) reported = true;
        if (action == Action::end_job) ended = true;
      }
      if (phase == JobPhase::recovering) CHECK((!current && !stopped && !acquired && reported));
      if (phase == JobPhase::running) {
        CHECK(current);
        CHECK(!next);
        CHECK(!stopped);
        CHECK(!acquired);
        CHECK(reported);
      }
    }
  }
}
