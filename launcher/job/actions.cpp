#include "launcher/job/actions.hpp"

#include <spdlog/spdlog.h>

#include <chrono>

#include "launcher/job/holdings.hpp"
#include "planner/core/schedule/move.hpp"

namespace espalier::launcher {
namespace {
// Those on an extension that goes end MPI together with the others; without them these would wait in vain.
constexpr wire::Loop::Milliseconds kRanksLeave{500};
}  // namespace

void Actions::note(const Row& row, const std::string& why) {
  using enum Event;
  rooms_.hand_off.note_why(why);
  if (row.on == terminate) rooms_.ending.terminated();
  const bool losing = row.on == current_lost || row.on == current_failed || row.on == unrecoverable;
  if (losing && row.to == JobPhase::ending) {
    spdlog::error("espalier: launch: {}; the job ends", why);
    rooms_.ending.fails();
  } else if (row.on == taken_over) {
    rooms_.recovery.inherited(why, began_);
  } else if (losing || row.from == JobPhase::recovering) {
    if (row.on == current_lost) rooms_.recovery.lost(why);
    if (row.on == next_failed) rooms_.recovery.failed(why);
    spdlog::debug("launch: {}: {}", to_string(row.on), why);  // one message per loss, when all about it is known
  } else if (!why.empty()) {
    spdlog::info("espalier: launch: {}: {}", to_string(row.on), why);
  }
  if (row.on == wide_lost) rooms_.generation_zero.lost(why);
}

void Actions::perform(Action action) {
  switch (action) {
    case Action::start_training:
      rooms_.hand_off.pause().generation_0_took(rooms_.generation_zero.trains());
      return rooms_.extensions.keep_acquired();
    case Action::start_alone:
      rooms_.machine.forget_first();
      rooms_.generations.drop_current();
      rooms_.extensions.cancel_acquired();
      rooms_.deadline.reset();
      return rooms_.generation_zero.start_alone();
    case Action::submit_extensions:
      if (moves_base(rooms_.hand_off.decision()))
        return rooms_.bases.second().acquire(rooms_.hand_off.decision().acquire);
      return rooms_.extensions.acquire(rooms_.hand_off.decision().acquire);
    case Action::cancel_acquired:
      rooms_.bases.second().cancel();
      return rooms_.extensions.cancel_acquired();
    case Action::start_next:
      return rooms_.hand_off.start_next();
    case Action::abort_next:
      rooms_.generations.drop_next();
      return rooms_.machine.forget_next();
    case Action::send_switch:
      rooms_.machine.forget_answers();
      return rooms_.hand_off.send_switch();
    case Action::ask_in_place:
      rooms_.machine.forget_answers();
      return rooms_.hand_off.in_place().ask();
    case Action::begin_load:
      return rooms_.hand_off.begin_load();
    case Action::send_load:
      return rooms_.hand_off.send_load();
    case Action::resume_old:
      return rooms_.generations.current()->give_up_switch();
    case Action::go_on_in_place:
      rooms_.hand_off.in_place().go_on();
      return forget_measured();
    case Action::end_old:
      return rooms_.hand_off.end_old();
    case Action::commit:
      // The old generation may have lost ranks since its state was taken, e.g. those on an extension that Slurm took.
      if (rooms_.generations.current() != nullptr) {
        rooms_.machine.forget_old();
        rooms_.recovery.forgive();
      }
      rooms_.hand_off.commit();
      rooms_.extensions.keep_acquired();
      rooms_.movable.take_second();
      rooms_.movable.save_before_base_ends();  // a generation that hands over writes no checkpoint
      return forget_measured();
    case Action::release_leaving:
      for (const JobId id : rooms_.hand_off.decision().release)
        rooms_.extensions.release(id,
                                  rooms_.generations.leaving() != nullptr ? kRanksLeave : wire::Loop::Milliseconds{});
      return;
    case Action::kill_old:
      rooms_.generations.drop_leaving();
      return rooms_.extensions.release_now();
    case Action::abort_current: {
      // False: in a hand-off by checkpoint the next generation was lost before its first step.
      const bool trained = rooms_.generations.current() != nullptr;
      rooms_.generations.drop_current();
      rooms_.machine.forget_current();
      rooms_.hand_off.pause().lost();
      return rooms_.recovery.bury(trained);
    }
    case Action::start_recovery:
      return rooms_.recovery.start();
    case Action::send_recover:
      return rooms_.recovery.send_recover();
    case Action::commit_recovery:
      rooms_.recovery.commit();
      rooms_.movable.save_before_base_ends();
      forget_measured();
      return release_unused();
    case Action::report_committed:
      return rooms_.hand_off.report_committed();
    case Action::report_aborted: {
      const bool own = rooms_.hand_off.decision().id == 0;
      rooms_.hand_off.report_aborted(rooms_.machine.phase() == JobPhase::recovering);
      if (rooms_.lists.given_up()) return;
      if (own) rooms_.notices.failed();
      return;
    }
    case Action::end_job:
      return end_job();
  }
}

void Actions::end_job() {
  rooms_.deadline.reset();
  rooms_.program.stop_waiting();
  rooms_.generations.end();
  if (rooms_.bases.next_launcher().there()) rooms_.extensions.leave_to_next();
  else rooms_.extensions.release_all();
  rooms_.hand_off.pause().lost();
  rooms_.recovery.end();
  rooms_.reports->leave({rooms_.context.job, rooms_.ending.code()});
  World* const current = rooms_.generations.current();
  const bool saves = rooms_.ending.by_signal() && !rooms_.program.speaks_protocol() && current != nullptr;
  // The ranks of a movable job die with its base.
  if (!saves || !rooms_.context.movable) give_back();
  if (saves) {
    // A program of its own kind, which heard the signal too, may want to save its work: it has as long as Slurm gives
    // it.
    const std::chrono::seconds patience(
        rooms_.context.site.kill_wait_seconds > 0 ? rooms_.context.site.kill_wait_seconds : 30);
    current->retire(patience);
    return rooms_.ending.await(patience);
  }
  if (current != nullptr) current->retire(std::chrono::milliseconds(500));
  rooms_.ending.world_gone();
  rooms_.ending.await({});
}

void Actions::give_back() {
  rooms_.bases.release_all();
  if (!rooms_.bases.next_launcher().there()) rooms_.keepers.give_back();
}

void Actions::forget_measured() {
  rooms_.reports->forget_profiles();
  rooms_.lists.another_plan();
}

void Actions::release_unused() {
  const GpusOfPlan used(rooms_.generations.plan());
  for (const Holding& holding : rooms_.gpus.extensions(false))
    if (!used.any_of(holding)) rooms_.extensions.release(holding.job);
}

}  // namespace espalier::launcher
