// A decision is made: what it is made from is put together on the loop's thread, and the scheduler decides on another.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/room.hpp"
#include "planner/daemon/trigger_strength.hpp"

namespace espalier {
namespace {

// After this time Slurm has had its try at a new job. The planner then looks whether the job still
// waits.
constexpr wire::Loop::Milliseconds kSlurmTries{static_cast<int>(1000 * kLeftToSlurmSeconds) + 100};

}  // namespace

void Planner::decide(const SlurmSnapshot& slurm) {
  std::map<std::string, double> moments{{"seen", slurm.time}};
  Trigger trigger = trigger_.value_or(Trigger::timer);
  trigger_.reset();
  // The answer to another question may already show the effect of an event.
  if (const auto released = releases_.take_first()) {
    trigger = stronger(trigger, Trigger::gpus_released);
    moments["event"] = *released;
  }
  if (submitted_at_) {
    trigger = stronger(trigger, Trigger::job_submitted);
    // The decision answers both a release and a submission: the delay counts from the first.
    const auto event = moments.try_emplace("event", *submitted_at_).first;
    event->second = std::min(event->second, *submitted_at_);
  }

  auto input =
      make_input(slurm, jobs_, trigger,
                 {settings_.max_gpus, settings_.partition, site_, &submissions_.arrivals(), settings_.rules,
                  limit_waits_.look(slurm, settings_.partition), settings_.scheduler.objective, node_findings()});
  try {
    make_room(input, moments);
    start_smaller(input, moments);
  } catch (const Error& error) {  // e.g. the store is full
    spdlog::error("{}", error.what());
  }
  const auto& waiting = slurm.cluster.waiting;
  // Without extensions nothing can be taken back, so the next poll is early enough.
  if (!input.extensions.empty() &&
      std::any_of(waiting.begin(), waiting.end(), [](const WaitingJob& job) { return job.left_to_slurm; }))
    look_again_ = loop_.after(kSlurmTries, [this] { think(Trigger::job_submitted); });
  auto from = std::make_shared<Deciding>();
  from->trigger = trigger;
  from->moments = std::move(moments);
  from->arrivals = submissions_.arrivals();
  from->input = std::move(input);
  from->input.arrivals = &from->arrivals;
  from->submitted_at = submitted_at_;
  from->settings = settings_now_;
  from->began = clock_seconds();
  if (settings_.migrate_gain >= 1)
    if (auto movable = movable_now(jobs_, last_, from->input.now, kRestAfterMove)) from->movable = std::move(*movable);
  if (settings_.scheduler.arena) from->input.movable = from->movable;
  from->trials = trials_now(from->input.now);
  if (!settings_.shadow) from->leases = leases_now(slurm);
  deciding_ = deciding_thread_.post([this, scheduler = scheduler_, places = places_, from]() -> std::function<void()> {
    auto result = std::make_shared<Decided>();
    try {
      result->decisions = scheduler->decide(from->input);
      result->weighed = std::make_shared<const std::vector<Weighed>>(scheduler->weighed());
      result->move = find_move(*from, *places, result->decisions);
      find_trial(*from, *result);
      result->renewals = renewed(from->leases, from->input, from->settings->scheduler);
    } catch (const std::exception& error) {
      result->failure = error.what();
    }
    return [this, from, result] { decided(*from, *result); };  // on the loop
  });
}

void Planner::decided(const Deciding& from, const Decided& result) {
  deciding_ = false;
  try {
    apply(from, result);
    prolong(result.renewals);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
  end_cycle();
}

}  // namespace espalier
