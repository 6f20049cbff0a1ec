// FlexTrain's scale table of a job (§4.4): made from what was measured, kept in the store.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/schedule/flextrain/predicted_scale.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"

namespace espalier {
namespace {

Json scale_row(const ScaleEntry& entry) {
  Json row{{"gpus", entry.gpus}, {"plan", nullptr}, {"dropped", nullptr}};
  if (!entry.dropped.empty()) row["dropped"] = entry.dropped;
  if (entry.limit_bytes > 0) {
    row["peak_bytes"] = entry.peak_bytes;
    row["limit_bytes"] = entry.limit_bytes;
  }
  if (entry.plan.empty()) return row;
  row["plan"] = entry.plan;
  row["schedule"] = entry.schedule;
  row["chunks"] = entry.chunks;
  row["step_seconds"] = entry.step_seconds;
  row["speedup_profiled"] = entry.profiled;
  row["speedup_modelled"] = entry.modelled;
  return row;
}

}  // namespace

void Planner::save_scale(LiveJob& live) {
  // A launcher says when its profile is calm.
  constexpr double kBetweenTables = 60;  // seconds
  const double now = clock_seconds();
  if (now >= live.scaled_at && now - live.scaled_at < kBetweenTables) return;
  live.scaled_at = now;
  scale_due_.insert(live.job.id);
  if (!scales_) scales_ = loop_.after(wire::Loop::Milliseconds(0), [this] { make_next_scale(); });
}

void Planner::make_next_scale() {
  scales_.reset();
  if (scale_due_.empty()) return;
  const double begin = clock_seconds();
  const auto live = jobs_.find(scale_due_.extract(scale_due_.begin()).value());
  if (live != jobs_.end()) make_scale(live->second);
  if (scale_due_.empty()) return;
  const auto rest = std::lround(4000 * std::max(0.0, clock_seconds() - begin));
  scales_ = loop_.after(wire::Loop::Milliseconds(rest), [this] { make_next_scale(); });
}

// Only what the job's own figures say is worth a table. What fails here costs the job nothing.
void Planner::make_scale(LiveJob& live) {
  if (!site_ || !live.job.plan) return;
  const auto measured = live.profiles.coefficients(*site_);
  if (!measured) return;
  ElasticJob job = live.job;
  job.max_gpus = std::min(job.max_gpus, most_gpus(live));
  ScaleOptions options;
  options.least_gain = settings_.scheduler.least_gain;
  if (settings_.scheduler.flextrain) options.elasticity = settings_.scheduler.flextrain->elasticity;
  // The lists of other schedules than 1F1B take long to simulate.
  if (!forms_of(job).empty()) options.most_entries = 8;
  const double now = clock_seconds();
  if (!may_write(live, now)) return tell_excess(live, "profiles");
  try {
    Json rows = Json::array();
    for (const ScaleEntry& entry : predicted_scale(job, *site_, *measured, options)) rows.push_back(scale_row(entry));
    const bool stages_alone = options.elasticity == Elasticity::pipeline;
    store_.save_scale(job.id, {{"job", job.id},
                               {"time", now},
                               {"step", live.profiles.step()},
                               {"measured_step_seconds", job.step_seconds},
                               {"scales", stages_alone ? "stages" : "stages and replicas"},
                               {"rows", std::move(rows)}});
    charge_writes(live, now);
  } catch (const std::exception& error) {  // it runs as a callback of the loop, which would end espalierd
    log_.line(job.uid, spdlog::level::info, "job {}: no scale table: {}", job.id, error.what());
  }
}

}  // namespace espalier
