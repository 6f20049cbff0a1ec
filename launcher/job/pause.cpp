#include "launcher/job/pause.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "planner/core/search_phase.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

// When the old generation last worked before it stood. A checkpoint that takes the state over is written while
// training stands, and its ranks tell of that work as of a validation. A validation ends when the launcher asks for a
// boundary, so what is told after that is the checkpoint's, unless it is the end of the step under way.
StepWatch::Time last_work(const Change& change, const StepWatch& steps) {
  const auto asked = change.at.find("asked");
  if (!change.by_disk || asked == change.at.end()) return steps.last_work_at();
  return std::max(steps.last_step_at(), std::min(steps.last_work_at(), asked->second));
}

}  // namespace

void Pause::begin(Change& under_way) {
  lost();  // a change before it, which had no step of its own
  under_way.at["last_work"] = last_work(under_way, steps_);
  const World* const current = generations_.current();
  under_way.committed = Committed{generations_.number(), generations_.plan(),
                                  current != nullptr ? current->loads().moved_bytes().sent_early : 0};
  awaiting_first_step_ = std::exchange(under_way, Change{under_way.decision});
}

void Pause::abort(const std::string& why) {
  const Change change = std::move(*awaiting_first_step_);
  awaiting_first_step_.reset();
  report_(outcome_now(context_, generations_, steps_, change.decision, "aborted: " + why));
}

void Pause::stepped(const wire::Step& step) {
  if (awaiting_first_step_) finish(step.step, step.seconds);
}

void Pause::progressed() {
  if (awaiting_first_step_) awaiting_first_step_->at.try_emplace("progress", wire::steady_now());
}

void Pause::lost() {
  if (awaiting_first_step_) finish(steps_.step(), std::nullopt);
}

// The first step on the new plan took `step_seconds`; without: there was none.
void Pause::finish(std::int64_t step, std::optional<double> step_seconds) {
  Change change = std::move(*awaiting_first_step_);
  awaiting_first_step_.reset();
  const auto between = [&](const char* from, const char* to) { return milliseconds_between(change, from, to); };
  wire::Outcome told = outcome_now(context_, generations_, steps_, change.decision, "committed");
  told.step = change.boundary;
  told.generation = change.committed->generation;
  told.plan = change.committed->plan;
  if (step_seconds) change.at["first_step"] = wire::steady_now();
  const double first_step = between("commit", "first_step");
  double resume = step_seconds ? std::max(0.0, first_step - *step_seconds * 1000) : 0.0;
  if (change.at.contains("progress")) resume = std::min(resume, between("commit", "progress"));
  // The pause: from the end of the last step on the old generation to the start of the first on the new one. A
  // validation is no pause, neither the part that the old one made before it stood nor what the new one makes first.
  told.pause_ms = between("last_work", "commit") + resume;
  if (change.in_place_of) {
    told.phases_ms = {{"boundary", between("asked", "boundary")},
                      {"stand", between("last_work", "boundary")},
                      {"in_place", between("boundary", "commit") + resume},
                      {"first_step", first_step}};
    if (change.lists) told.phases_ms[kSearchPhase] = change.lists->search_ms;
    spdlog::info("espalier: launch: paused {:.1f} ms between step {} and {}, in place", told.pause_ms, change.boundary,
                 step);
    return report_(told);
  }
  const bool restarted = change.at["ready"] > change.at["boundary"];
  told.phases_ms = {{"acquire", between("proposed", "acquired")},
                    {"start", between(restarted                        ? "boundary"
                                      : change.at.contains("acquired") ? "acquired"
                                                                       : "proposed",
                                      "ready")},
                    {"boundary", between("asked", "boundary")},
                    {"stand", between("last_work", "boundary")},
                    {"load", between(restarted ? "ready" : "boundary", "commit")},
                    {"resume", resume},
                    {"first_step", first_step}};
  for (const auto& [phase, ms] : change.load_phases_ms) told.phases_ms["load_" + phase] = ms;
  measured_ = measured_phases(told.phases_ms, change.committed->sent_early > 0);
  spdlog::info("espalier: launch: paused {:.1f} ms between step {} and {} (acquire {:.0f} ms, start {:.0f} ms{})",
               told.pause_ms, change.boundary, step, told.phases_ms["acquire"], told.phases_ms["start"],
               restarted ? " of it" : " beside training");
  report_(told);
}

double Pause::predicted_seconds() {
  measured_.step = steps_.seconds();
  return launcher::predicted_seconds(measured_);
}

}  // namespace espalier::launcher
