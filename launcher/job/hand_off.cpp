#include "launcher/job/hand_off.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "launcher/job/holdings.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr auto kOldLeaves = std::chrono::seconds(2);
}  // namespace

HandOff::HandOff(const JobContext& context, Generations& generations, StepWatch& steps, Callbacks callbacks)
    : context_(context),
      generations_(generations),
      steps_(steps),
      callbacks_(std::move(callbacks)),
      pause_(context, generations, steps, callbacks_.report),
      in_place_(generations, steps, change_, pause_) {}

void HandOff::begin(const Decision& decision, std::optional<Lists> lists) {
  change_ = Change{decision, {{"proposed", wire::steady_now()}}};
  change_->lists = std::move(lists);
}

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
  change_->load_phases_ms = generations_.next()->loads().phases_ms();
  if (generations_.current() != nullptr) generations_.retire_current(kOldLeaves);
  generations_.succeed(change_->decision.plan, change_->boundary);
  steps_.begin_anew();
  spdlog::info("espalier: launch: {} committed at step {}: generation {}, {}", to_string(change_->decision.kind),
               change_->boundary, generations_.number(), describe(generations_.plan()));
  if (const LoadReports::MovedBytes moved = generations_.current()->loads().moved_bytes();
      generations_.leaving() != nullptr)
    spdlog::info(
        "espalier: launch: generation {} has adopted {} bytes, copied {}, and got {} from other nodes, at most {} on "
        "one; {} had come before the pause",
        generations_.number(), moved.adopted, moved.copied, moved.sent, moved.most_to_a_node, moved.sent_early);
  change_->by_disk = callbacks_.by_disk();
  pause_.begin(*change_);
}

void HandOff::report_aborted(bool lost) {
  spdlog::log(lost ? spdlog::level::debug : spdlog::level::warn, "espalier: launch: {} given up: {}; training goes on",
              to_string(change_->decision.kind), change_->why_aborted);
  callbacks_.report(outcome_now(context_, generations_, steps_, change_->decision, "aborted: " + change_->why_aborted));
  change_.reset();
}

}  // namespace espalier::launcher
