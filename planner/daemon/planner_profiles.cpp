// What the planner measures of jobs, keeps in the store, and offers to the next job like them.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/pipeline_view.hpp"
#include "planner/core/model/step_statistics.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/kept_coefficients.hpp"
#include "planner/daemon/kept_trials.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

std::vector<GpuId> gpus_of(const ElasticJob& job) {
  if (job.plan) return job.plan->ranks();
  std::vector<GpuId> gpus;
  for (const Holding& held : job.anchor)
    for (const int gpu : held.gpus) gpus.push_back({held.node, gpu});
  return gpus;
}

// For `espalier schedule --job`; null where the plan is no pipeline.
Json pipeline_of(const ElasticJob& job, const JobCoefficients& known, const Site& site) {
  if (!job.plan || job.plan->stages.size() < 2) return nullptr;
  Training training = training_of(job.model, job.accuracy == Accuracy::bitwise);
  training.in_parts = true;
  try {
    const double share = model_sizes(job.model, training, site.hardware.types.size()).deferred;
    return pipeline_view(site.hardware, site.topology, known, *job.plan, share);
  } catch (const Error&) {  // a node has left Slurm, say
    return nullptr;
  }
}

// What is learnt is worth less than the connection to the launcher: it stays when the store cannot
// be written.
template <class Write>
void written(UserLog& log, const ElasticJob& job, const Write& write) {
  try {
    write();
  } catch (const Error& error) {
    log.line(job.uid, spdlog::level::err, "job {}: what was measured of it is not kept: {}", job.id, error.what());
  }
}

// The degrees of the plan that runs must stay possible, whatever earlier jobs ran.
void allow_present_degrees(JobCoefficients& coefficients, const ElasticJob& job) {
  if (!job.plan) return;
  auto& degrees = coefficients.tp_degrees;
  for (const Stage& stage : job.plan->stages) degrees.push_back(stage.tp);
  std::sort(degrees.begin(), degrees.end());
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
}

// usual_rail() of what the job's planner may know.
double links_by_others(Store& store, const PlannerSettings& settings, const ElasticJob& job) {
  constexpr int kLooked = 64;  // rows
  const std::string text = description(job);
  if (text.empty()) return 0;
  return usual_rail(
      settings.share_profiles ? store.newest_knowledge(kLooked) : store.newest_knowledge_of(job.uid, kLooked), text);
}

// Whether the job relies on what one under another driver than its own taught.
bool of_other_driver(Store& store, const LiveJob& live) {
  if (live.driver.empty()) return false;
  return std::any_of(live.recalled_rows.begin(), live.recalled_rows.end(), [&](std::int64_t id) {
    const auto row = store.knowledge(id);
    return row && !row->driver.empty() && row->driver != live.driver;
  });
}

// What earlier jobs taught goes. Of a job that has measured some of its own coefficients since, those of its latest
// profile stay: what is older was combined with theirs.
void without_recalled(Store& store, LiveJob& live, const Site& site) {
  live.recalled_rows.clear();
  ProfileBook& book = live.profiles;
  if (!book.settled()) return book.forget_recalled();
  auto own = book.measured(site);
  if (const auto stored = own ? std::nullopt : store.coefficients(live.job.id))
    own = stored_coefficients(stored->value("unaided", Json()), site.hardware);
  if (!own) {
    book = ProfileBook();
    return;
  }
  allow_present_degrees(*own, live.job);
  book.restore(site, std::move(*own), book.generation(), book.step(), book.spread());
}

}  // namespace

// Takes only a profile of the running plan. A profile of the previous generation may arrive late.
void Planner::take_profile(LiveJob& live) {
  const auto profile = std::exchange(live.job.profile, std::nullopt);
  if (site_ && (live.recalled_on != site_ || !(live.recalled_for == live.job.model))) recall(live);
  if (!profile || !live.job.plan || profile->plan != *live.job.plan || !site_) return;
  if (const std::string why = unfit(*profile, *live.job.plan, live.job.model); !why.empty()) {
    if (std::exchange(live.unfit_profile, why) != why)
      log_.line(live.job.uid, spdlog::level::warn, "job {}: {}; the profile is not used", live.job.id, printable(why));
    return;
  }
  live.driver = profile->driver;
  // What jobs under another driver taught does not count for it.
  if (of_other_driver(store_, live)) {
    without_recalled(store_, live, *site_);
    recall(live);
  }
  note_slow_nodes(live, *profile);
  // Once for each generation, since other jobs may have measured the links meanwhile.
  if (live.profiles.generation() != live.job.generation) expect_rail(live);
  const std::string known_trouble = live.profiles.trouble();
  switch (live.profiles.add(site_for(*site_, live.job), *profile, live.job.generation, told_lists(live.job))) {
    case ProfileBook::News::ready:
      log_.line(live.job.uid, spdlog::level::info,
                "job {}: measured after step {} (its profile is of step {}); it is planned with that from now on",
                live.job.id, live.job.step, profile->step);
      save_coefficients(live);
      save_scale(live);
      learn_profile(live, live.profiles.spread());
      tell_known(live);
      think_for(live.job.uid, Trigger::profile_ready);
      break;
    case ProfileBook::News::unusable:
      if (live.profiles.trouble() != known_trouble)
        log_.line(live.job.uid, spdlog::level::warn, "job {}: {}; the profile is not used", live.job.id,
                  printable(live.profiles.trouble()));
      break;
    case ProfileBook::News::taken:
      save_coefficients(live);
      break;
    case ProfileBook::News::none:
      break;
  }
}

void Planner::expect_rail(LiveJob& live) { live.profiles.expect_rail(links_by_others(store_, settings_, live.job)); }

void Planner::save_coefficients(LiveJob& live) {
  if (!site_) return;
  const double now = clock_seconds();
  if (!may_write(live, now)) return tell_excess(live, "profiles");
  const Json record = coefficients_record(live);
  if (record.empty()) return;
  written(log_, live.job, [&] { store_.save_coefficients(live.job.id, record); });
  charge_writes(live, now);
}

// Of what the job is planned with; an empty object where nothing was measured or recalled.
Json Planner::coefficients_record(const LiveJob& live) const {
  const ProfileBook& book = live.profiles;
  const auto known = book.latest(*site_);
  if (!known) return Json::object();
  // What is left of it when what it recalled is forgotten.
  const auto own = live.recalled_rows.empty() || book.recalled() ? std::nullopt : book.measured(*site_);
  Json measured = Json::object();
  for (const CoefficientState& state : coefficient_states(*known, site_->hardware))
    measured[state.name] = state.measured;
  return {{"settled", book.settled() || book.recalled()},
          {"recalled", book.recalled()},
          {"rows", live.recalled_rows},
          {"values", kept_coefficients(*known, site_->hardware)},
          {"unaided", own ? kept_coefficients(*own, site_->hardware) : Json()},
          {"measured", std::move(measured)},
          {"spread", book.spread()},
          {"generation", book.generation()},
          {"step", book.step()},
          {"steps", book.steps()},
          {"time", clock_seconds()},
          {"pipeline", pipeline_of(live.job, *known, *site_)},
          {"trials", kept_trials(live.trials)},
          {"job", description(live.job)}};
}

// A restarted planner plans with what the job had measured before, and measures nothing anew; nor does the job try
// plans once more.
bool Planner::restore(LiveJob& live) {
  const auto stored = store_.coefficients(live.job.id);
  if (!stored || !stored->value("settled", false) || stored->value("recalled", false)) return false;
  if (stored->value("job", "") != description(live.job)) return false;  // the id was given again
  auto own = stored_coefficients(stored->value("values", Json()), site_->hardware);
  if (!own) return false;
  allow_present_degrees(*own, live.job);
  if (live.trials.gpus.empty()) live.trials = trials_kept(stored->value("trials", Json()));
  if (stored->value("unaided", Json()).is_object())
    live.recalled_rows = stored->value("rows", std::vector<std::int64_t>());
  if (own->assumed_rail) own->rail_ms_per_byte = links_by_others(store_, settings_, live.job);
  live.profiles.restore(*site_, std::move(*own), stored->value("generation", -1),
                        stored->value("step", std::int64_t{-1}), stored->value("spread", 0.0));
  log_.line(live.job.uid, spdlog::level::info, "job {}: it is planned with what it measured until step {}", live.job.id,
            stored->value("step", std::int64_t{-1}));
  return true;
}

void Planner::recall(LiveJob& live) {
  live.recalled_on = site_;
  live.recalled_for = live.job.model;
  const std::string job = description(live.job);
  if (!job.empty() && live.profiles.settled() && live.profiles.coefficients(*site_)) return expect_rail(live);
  live.recalled_rows.clear();
  if (job.empty()) return;
  const bool restored = restore(live);
  expect_rail(live);
  auto rows = store_.knowledge_of(job, settings_.share_profiles ? std::nullopt : std::optional(live.job.uid));
  keep_one_driver(rows, live.driver);
  std::stable_partition(rows.begin(), rows.end(), [&](const Knowledge& row) { return row.uid == live.job.uid; });
  for (const Knowledge& row : rows) {
    if (!live.pause_seconds && row.pause.count > 0) live.pause_seconds = row.pause.mean;
    if (!live.start_seconds && row.start.count > 0) live.start_seconds = row.start.mean;
  }
  if (restored) return;
  auto known = recalled(rows, gpu_types(*site_, gpus_of(live.job)), *site_);
  if (!known) return;
  allow_present_degrees(*known, live.job);
  for (const Knowledge& row : rows)
    if (!row.coefficients.is_null()) live.recalled_rows.push_back(row.id);
  // Rows of jobs that saw no sum between nodes tell nothing of the links: what other kinds of jobs measured counts.
  if (known->assumed_rail) known->rail_ms_per_byte = links_by_others(store_, settings_, live.job);
  live.profiles.recall(*site_, std::move(*known));
  expect_rail(live);  // a book on other hardware has started again
  save_coefficients(live);
  log_.line(live.job.uid, spdlog::level::info, "job {}: planned with what earlier jobs like it measured (profile {})",
            live.job.id, live.recalled_rows.front());
  think_for(live.job.uid, Trigger::profile_ready);
}

// The row that this job teaches; a new one where there is none yet. nullopt: nothing can be learnt.
std::optional<Knowledge> Planner::row_of(const LiveJob& live) const {
  Knowledge row;
  row.job = description(live.job);
  if (row.job.empty() || !site_) return std::nullopt;
  row.uid = live.job.uid;
  row.gpus = gpu_types(*site_, gpus_of(live.job));
  row.driver = live.driver;
  row.first = clock_seconds();
  for (Knowledge& known : store_.knowledge_of(row.job, row.uid))
    if (known.gpus == row.gpus && known.driver == row.driver) row = std::move(known);
  row.updated = clock_seconds();
  return row;
}

void Planner::learn_profile(LiveJob& live, double spread) {
  const double now = clock_seconds();
  if (!may_write(live, now)) return tell_excess(live, "profiles");
  auto row = row_of(live);
  const auto measured = row ? live.profiles.measured(*site_) : std::nullopt;
  if (!measured) return;
  learn(*row, *measured, spread, *site_);
  written(log_, live.job, [&] { store_.save(*row); });
  charge_writes(live, now);
}

// A recovery teaches nothing: nobody chose or prepared it. Nor does the start of a job: it begins with no
// process of the program on the node.
void Planner::learn_change(LiveJob& live, const DecisionRecord& record) {
  if (record.decision.kind == DecisionKind::recover || record.decision.kind == DecisionKind::start) return;
  if (record.phases_ms.contains("in_place")) return;  // it tells nothing of a change of generation
  const auto start = record.phases_ms.find("start");
  const bool started = start != record.phases_ms.end() && start->second > 0;
  if (record.decision.pause_ms <= 0 && !started) return;
  auto row = row_of(live);
  if (!row) return;
  if (record.decision.pause_ms > 0) row->pause.add(record.decision.pause_ms / 1000);
  if (started) {
    row->start.add(start->second / 1000);
    live.start_seconds = row->start.mean;
  }
  written(log_, live.job, [&] { store_.save(*row); });
  charge_writes(live, clock_seconds());
}

// The cost of a reconfiguration of this job: the mean of its last three pauses.
void Planner::note_pause(LiveJob& live) {
  constexpr std::size_t kMeant = 3;
  constexpr int kLooked = 10;
  auto pauses = store_.pauses(live.job.id, kLooked);  // nobody chose or prepared a recovery: it is none
  if (pauses.empty()) return;
  pauses.resize(std::min(pauses.size(), kMeant));
  live.pause_seconds = std::accumulate(pauses.begin(), pauses.end(), 0.0) / 1000 / static_cast<double>(pauses.size());
}

void Planner::forget(std::int64_t knowledge) {
  view_.reset();
  if (!store_.forget_knowledge(knowledge))
    throw Error("profile " + std::to_string(knowledge) + ": there is none; see espalier show profiles");
  for (auto& [id, live] : jobs_) {
    const auto& rows = live.recalled_rows;
    if (std::find(rows.begin(), rows.end(), knowledge) == rows.end()) continue;
    if (site_) without_recalled(store_, live, *site_);
    else live.recalled_rows.clear();
    live.recalled_on.reset();
    // In one write, and whatever else of the job was written lately: its own figures would be gone until its next
    // profile, and at a restart for ever.
    const bool own = site_ && live.profiles.settled();
    store_.save_coefficients(id, own ? coefficients_record(live) : Json::object());
  }
  spdlog::info("profile {}: forgotten", knowledge);
}

}  // namespace espalier
