#include "launcher/job/hand_off.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "launcher/job/holdings.hpp"
#include "launcher/job/outcomes.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr auto kOldLeaves = std::chrono::seconds(2);

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}
}  // namespace

HandOff::HandOff(const JobContext& context, Generations& generations, StepWatch& steps, Callbacks callbacks)
    : context_(context), generations_(generations), steps_(steps), callbacks_(std::move(callbacks)) {}

void HandOff::begin(const Decision& decision) { change_ = Change{decision, {{"proposed", wire::steady_now()}}, "", 0}; }

bool HandOff::releases(JobId extension) const {
  const auto& released = change_->decision.release;
  return std::find(released.begin(), released.end(), extension) != released.end();
}

void HandOff::note(const std::string& phase) {
  if (change_) change_->at[phase] = wire::steady_now();
}

void HandOff::note_why(const std::string& why) {
  if (change_ && !why.empty()) change_->why_aborted = why;
}

void HandOff::start_next() {
  Plan& plan = change_->decision.plan;
  try {
    place_on_granted(plan, callbacks_.held(), callbacks_.granted());
    // Without a source it starts from the newest checkpoint.
    early_seconds_ = launcher::early_seconds(steps_.seconds(), context_.config.start_seconds,
                                             !change_->decision.release.empty() || callbacks_.hurries());
    std::optional<wire::Assign::Source> source;
    if (generations_.current() != nullptr) source = {generations_.number(), generations_.plan(), false, early_seconds_};
    generations_.start_next(plan, source);
  } catch (const Error& error) {
    callbacks_.next_lost(error.what());
  }
}

void HandOff::send_switch() {
  note("asked");
  const World* const next = generations_.next();
  generations_.current()->request_switch(change_->decision.plan, generations_.next_number(),
                                         next != nullptr ? next->jobs() : wire::GpuJobs{});
}

void HandOff::ask_in_place() {
  note("asked");
  change_->in_place_of = generations_.plan();
  generations_.current()->request_switch(change_->decision.plan, generations_.number(), {});
}

void HandOff::begin_load() {
  change_->load_begun = true;
  generations_.next()->send_all(wire::Load{generations_.current()->boundary(), true});
}

void HandOff::send_load() {
  note("boundary");
  change_->boundary = generations_.current()->boundary();
  if (change_->load_begun) return generations_.next()->send_all(wire::Given{});
  generations_.next()->send_all(wire::Load{change_->boundary});
}

void HandOff::end_old() {
  note("boundary");
  change_->boundary = generations_.current()->boundary();
  generations_.retire_current(kOldLeaves);
}

void HandOff::commit() {
  generations_.next()->send_all(wire::Commit{});
  note("commit");
  change_->load_phases_ms = generations_.next()->load_phases_ms();
  if (generations_.current() != nullptr) generations_.retire_current(kOldLeaves);
  generations_.succeed(change_->decision.plan, change_->boundary);
  steps_.begin_anew();
  spdlog::info("espalier: launch: {} committed at step {}: generation {}, {}", to_string(change_->decision.kind),
               change_->boundary, generations_.number(), describe(generations_.plan()));
  if (const World::MovedBytes moved = generations_.current()->moved_bytes(); generations_.leaving() != nullptr)
    spdlog::info(
        "espalier: launch: generation {} has adopted {} bytes, copied {}, and got {} from other nodes, at most {} on "
        "one; {} had come before the pause",
        generations_.number(), moved.adopted, moved.copied, moved.sent, moved.most_to_a_node, moved.sent_early);
  await_first_step();
}

void HandOff::go_on_in_place() {
  note("boundary");
  change_->boundary = generations_.current()->boundary();
  generations_.current()->send_all(wire::Resume{change_->decision.plan});
  note("commit");
  generations_.set_plan(change_->decision.plan);
  steps_.begin_anew();
  spdlog::info("espalier: launch: {} committed at step {}: generation {} goes on with {}",
               to_string(change_->decision.kind), change_->boundary, generations_.number(),
               describe(generations_.plan()));
  await_first_step();
}

bool HandOff::goes_in_place() const {
  const World* const current = generations_.current();
  return current != nullptr && current->replans_in_place() && keeps_places(generations_.plan(), change_->decision.plan);
}

bool HandOff::take_back_in_place(const std::string& why) {
  if (!awaiting_first_step_ || !awaiting_first_step_->in_place_of) return false;
  const Change change = std::move(*awaiting_first_step_);
  awaiting_first_step_.reset();
  generations_.set_plan(*change.in_place_of);
  callbacks_.report(outcome(change.decision, "aborted: " + why));
  return true;
}

void HandOff::await_first_step() {
  change_->at["last_step"] = steps_.last_step_at();
  awaiting_first_step_ = std::move(change_);
  // The decision is still needed: it says which extensions leave.
  change_ = Change{awaiting_first_step_->decision, {}, "", 0};
}

void HandOff::report_aborted(bool lost) {
  spdlog::log(lost ? spdlog::level::debug : spdlog::level::warn, "espalier: launch: {} given up: {}; training goes on",
              to_string(change_->decision.kind), change_->why_aborted);
  callbacks_.report(outcome(change_->decision, "aborted: " + change_->why_aborted));
  change_.reset();
}

void HandOff::stepped(const wire::Step& step) {
  if (awaiting_first_step_) finish_pause(step.step, step.seconds);
}

void HandOff::lost() {
  if (awaiting_first_step_) finish_pause(steps_.step(), std::nullopt);
}

// The first step of the new generation took `step_seconds`; without: there was none.
void HandOff::finish_pause(std::int64_t step, std::optional<double> step_seconds) {
  Change change = std::move(*awaiting_first_step_);
  awaiting_first_step_.reset();
  const auto between = [&](const char* from, const char* to) {
    return change.at.contains(from) && change.at.contains(to) ? milliseconds(change.at[to] - change.at[from]) : 0.0;
  };
  wire::Outcome told = outcome(change.decision, "committed");
  told.step = change.boundary;
  const double first_step = milliseconds(wire::steady_now() - change.at["commit"]);
  const double resume = step_seconds ? std::max(0.0, first_step - *step_seconds * 1000) : 0.0;
  // The pause: from the end of the last step on the old generation to the start of the first on the new one.
  told.pause_ms = between("last_step", "commit") + resume;
  if (change.in_place_of) {
    told.phases_ms = {{"boundary", between("asked", "boundary")},
                      {"stand", between("last_step", "boundary")},
                      {"in_place", between("boundary", "commit") + resume},
                      {"first_step", first_step}};
    spdlog::info("espalier: launch: paused {:.1f} ms between step {} and {}, in place", told.pause_ms, change.boundary,
                 step);
    return callbacks_.report(told);
  }
  const bool restarted = change.at["ready"] > change.at["boundary"];
  told.phases_ms = {{"acquire", between("proposed", "acquired")},
                    {"start", between(restarted                        ? "boundary"
                                      : change.at.contains("acquired") ? "acquired"
                                                                       : "proposed",
                                      "ready")},
                    {"boundary", between("asked", "boundary")},
                    {"stand", between("last_step", "boundary")},
                    {"load", between(restarted ? "ready" : "boundary", "commit")},
                    {"resume", resume},
                    {"first_step", first_step}};
  for (const auto& [phase, ms] : change.load_phases_ms) told.phases_ms["load_" + phase] = ms;
  const World* const current = generations_.current();
  measured_ = measured_phases(told.phases_ms, current != nullptr && current->moved_bytes().sent_early > 0);
  spdlog::info("espalier: launch: paused {:.1f} ms between step {} and {} (acquire {:.0f} ms, start {:.0f} ms{})",
               told.pause_ms, change.boundary, step, told.phases_ms["acquire"], told.phases_ms["start"],
               restarted ? " of it" : " beside training");
  callbacks_.report(told);
}

wire::Outcome HandOff::outcome(const Decision& decision, const std::string& result) const {
  wire::Outcome outcome = outcome_of(context_.job, decision, result);
  outcome.generation = generations_.number();
  outcome.step = steps_.step();
  outcome.plan = generations_.plan();
  tell_own(decision, outcome);
  return outcome;
}

double HandOff::predicted_seconds() {
  measured_.step = steps_.seconds();
  return launcher::predicted_seconds(measured_);
}

}  // namespace espalier::launcher
