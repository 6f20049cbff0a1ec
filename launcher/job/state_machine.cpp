#include "launcher/job/state_machine.hpp"

#include <array>

namespace espalier::launcher {

std::span<const Row> transition_table() {
  using enum JobPhase;
  using enum Event;
  using enum Action;
  // An event without a row is ignored. Examples: a proposal while another one is under way (the planner proposes
  // again); a notice for an extension that the next plan leaves anyway. Pending notices are answered when the state is
  // `running` again.
  static const std::vector<Row> table = {
      {launching, world_ready, running, {start_training}},
      {launching, wide_lost, launching, {start_alone}},
      {launching, taken_over, recovering, {abort_current, start_recovery}},

      {running, propose_acquire, acquiring, {submit_extensions}},
      {running, propose_direct, starting, {start_next}},
      {running, propose_in_place, replanning, {ask_in_place}},

      {acquiring, granted, starting, {start_next}},
      {acquiring, acquire_failed, running, {cancel_acquired, report_aborted}},
      {acquiring, notice_breaks, running, {cancel_acquired, report_aborted}},

      {starting, next_ready, ready, {send_switch}},
      {starting, next_failed, running, {abort_next, cancel_acquired, report_aborted}},
      {starting, notice_breaks, running, {abort_next, cancel_acquired, report_aborted}},

      {ready, old_stands, ready, {begin_load}},
      {ready, old_switched, switching, {send_load}},
      {ready, next_failed, running, {abort_next, resume_old, cancel_acquired, report_aborted}},
      {ready, notice_breaks, running, {abort_next, resume_old, cancel_acquired, report_aborted}},

      {switching, next_loaded, committed, {commit, release_leaving}},
      {switching, next_failed, running, {abort_next, resume_old, cancel_acquired, report_aborted}},
      {switching, notice_breaks, running, {abort_next, resume_old, cancel_acquired, report_aborted}},

      {committed, old_gone, running, {kill_old, report_committed}},

      {replanning, old_switched, running, {go_on_in_place, report_committed}},
      {replanning, next_failed, running, {resume_old, report_aborted}},
      {replanning, notice_breaks, running, {resume_old, report_aborted}},

      // Hand-off by checkpoint. No generation runs from the end of the old one to the start of the next one.
      {running, propose_restart, saving, {send_switch}},
      {acquiring, granted_restart, saving, {send_switch}},
      {saving, old_switched, restarting, {end_old, start_next}},
      {saving, next_failed, running, {resume_old, cancel_acquired, report_aborted}},
      {saving, notice_breaks, running, {resume_old, cancel_acquired, report_aborted}},
      {restarting, next_ready, running, {commit, release_leaving, kill_old, report_committed}},

      {launching, current_finished, ending, {end_job}},
      {running, current_finished, ending, {end_job}},
      {acquiring, current_finished, ending, {end_job}},
      {starting, current_finished, ending, {end_job}},
      {ready, current_finished, ending, {end_job}},
      {switching, current_finished, ending, {end_job}},
      {committed, current_finished, ending, {report_committed, end_job}},
      {saving, current_finished, ending, {end_job}},
      {replanning, current_finished, ending, {end_job}},

      // A job that never trained has nothing to recover.
      {launching, current_lost, ending, {end_job}},
      {running, current_lost, recovering, {abort_current, start_recovery}},
      {acquiring, current_lost, recovering, {cancel_acquired, report_aborted, abort_current, start_recovery}},
      {starting,
       current_lost,
       recovering,
       {abort_next, cancel_acquired, report_aborted, abort_current, start_recovery}},
      {ready, current_lost, recovering, {abort_next, cancel_acquired, report_aborted, abort_current, start_recovery}},
      {switching,
       current_lost,
       recovering,
       {abort_next, cancel_acquired, report_aborted, abort_current, start_recovery}},
      {committed, current_lost, recovering, {kill_old, report_committed, abort_current, start_recovery}},
      {replanning, current_lost, recovering, {report_aborted, abort_current, start_recovery}},
      {saving, current_lost, recovering, {cancel_acquired, report_aborted, abort_current, start_recovery}},
      {restarting,
       current_lost,
       recovering,
       {abort_next, kill_old, cancel_acquired, report_aborted, abort_current, start_recovery}},

      {recovering, next_ready, recovering, {send_recover}},
      {recovering, next_loaded, running, {commit_recovery}},
      {recovering, next_failed, recovering, {abort_next, start_recovery}},
      {recovering, unrecoverable, ending, {end_job}},

      {launching, current_failed, ending, {end_job}},
      {running, current_failed, ending, {end_job}},
      {acquiring, current_failed, ending, {end_job}},
      {starting, current_failed, ending, {end_job}},
      {ready, current_failed, ending, {end_job}},
      {switching, current_failed, ending, {end_job}},
      {committed, current_failed, ending, {end_job}},
      {saving, current_failed, ending, {end_job}},
      {replanning, current_failed, ending, {end_job}},
      {restarting, current_failed, ending, {end_job}},
      {recovering, current_failed, ending, {end_job}},

      {launching, terminate, ending, {end_job}},
      {running, terminate, ending, {end_job}},
      {acquiring, terminate, ending, {end_job}},
      {starting, terminate, ending, {end_job}},
      {ready, terminate, ending, {end_job}},
      {switching, terminate, ending, {end_job}},
      {committed, terminate, ending, {end_job}},
      {saving, terminate, ending, {end_job}},
      {replanning, terminate, ending, {end_job}},
      {restarting, terminate, ending, {end_job}},
      {recovering, terminate, ending, {end_job}},
  };
  return table;
}

const Row* transition(JobPhase state, Event event) {
  for (const Row& row : transition_table())
    if (row.from == state && row.on == event) return &row;
  return nullptr;
}

bool trains(JobPhase state) {
  using enum JobPhase;
  return state == running || state == acquiring || state == starting || state == ready;
}

std::string to_string(Event event) {
  static constexpr std::array names{
      "world_ready",     "wide_lost",      "taken_over",      "propose_acquire", "propose_direct", "propose_in_place",
      "propose_restart", "granted",        "granted_restart", "acquire_failed",  "next_ready",     "next_failed",
      "old_stands",      "old_switched",   "next_loaded",     "old_gone",        "notice_breaks",  "current_finished",
      "current_lost",    "current_failed", "unrecoverable",   "terminate"};
  return names.at(static_cast<std::size_t>(event));
}

std::string to_string(Action action) {
  static constexpr std::array names{
      "start_training", "start_alone",     "submit_extensions", "cancel_acquired", "start_next",    "abort_next",
      "send_switch",    "ask_in_place",    "begin_load",        "send_load",       "resume_old",    "go_on_in_place",
      "end_old",        "commit",          "release_leaving",   "kill_old",        "abort_current", "start_recovery",
      "send_recover",   "commit_recovery", "report_committed",  "report_aborted",  "end_job"};
  return names.at(static_cast<std::size_t>(action));
}

}  // namespace espalier::launcher
