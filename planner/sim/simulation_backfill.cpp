#include "planner/sim/simulation_state.hpp"

#include <algorithm>

namespace espalier::sim {

// Slurm's backfill scheduler makes a pass where something has changed, and never sooner than bf_interval after the
// last.
void Simulation::ask_for_backfill(double at) {
  if (backfill_pending_ || queue_.empty()) return;
  const double due = std::max(at, backfilled_at_ + options_.slurm.backfill_interval_seconds);
  if (due <= input_.now) {
    backfill_by_reservations();
    return;
  }
  backfill_pending_ = true;
  events_.add({due, EventKind::backfill, 0, 0});
}

StartQuestion Simulation::start_question() const {
  StartQuestion question;
  question.cluster = &input_.cluster;
  question.extensions = &input_.extensions;
  question.leaving = &noticed_;
  question.preempt = preempts() ? preempt_ : Preemption::none;
  question.now = input_.now;
  question.end_of = [this](JobId owner) { return expected_end(owner); };
  question.most_jobs = options_.slurm.most_backfill_jobs;
  return question;
}

std::vector<PlannedStart> Simulation::planned_starts() const { return plan_starts(queue_, start_question()); }

// True: something started, or was told to end.
bool Simulation::backfill_by_reservations() {
  backfilled_at_ = input_.now;
  queue_.turn_to(input_.now);
  bool acted = false;
  for (const PlannedStart& planned : planned_starts()) {
    LiveJob& job = live_.at(planned.job->id);
    job.seen_by_slurm = true;
    if (!planned.place) continue;
    if (planned.idle) start(job, basic_on(job.state, *planned.place));
    else preempt(planned.preempted);
    acted = acted || planned.idle || !planned.preempted.empty();
  }
  return acted;
}

}  // namespace espalier::sim
