#include "planner/daemon/queue_profiles.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/stages_to_profile.hpp"
#include "planner/core/stage_profile_json.hpp"
#include "planner/daemon/answers_json.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/foresight.hpp"
#include "planner/daemon/printable.hpp"
#include "planner/daemon/report_check.hpp"
#include "planner/wire/stage_queries.hpp"

namespace espalier {
namespace {

constexpr std::size_t kKeptPlans = 8, kMostTypes = 4;

std::string type_of(const Site& site, const GpuId& gpu) { return gpu_types(site, {gpu}); }

std::string text_of(const Json& arguments, const char* key) {
  const auto found = arguments.find(key);
  if (found == arguments.end()) return "";
  if (!found->is_string()) throw Error(std::string("query: ") + key + " must be a text");
  return found->get<std::string>();
}

// The profiles of one plan's stages.
std::vector<StageProfile> stages_of(const Json& arguments) {
  const auto found = arguments.find("profiles");
  if (found == arguments.end() || !found->is_array() || found->empty() || found->size() > kMostStages)
    throw Error("query: profiles must be a list of 1 to " + std::to_string(kMostStages) + " profiles");
  std::vector<StageProfile> stages;
  const UnknownFieldsPass pass;  // the launcher may be of another version
  for (const Json& one : *found) stages.push_back(stage_profile_from(one));
  return stages;
}

// Names a plan that was measured. Its stages take the same time with every schedule, which the program may have filled
// in.
std::string measured_form(Plan plan, const Site& site) {
  plan.schedule.clear();
  return plan_form(plan, site);
}

double spread_of(const std::vector<StageProfile>& stages) {
  double spread = 0;
  for (const StageProfile& stage : stages)
    for (const UnitProfile& unit : stage.units) spread = std::max(spread, unit.spread);
  return spread;
}

}  // namespace

Json QueueProfiles::answer(const wire::Query& query, const wire::Peer& peer) {
  if (!planner_.last_snapshot() || !planner_.site()) return {{"again", true}};
  forget_started();
  const auto id = number<JobId>(query.arguments, "job");
  const SlurmJob* const job = planner_.last_snapshot()->alive(id);
  // Nobody learns of another user's job.
  const bool own = job != nullptr && job->uid == peer.uid && anchor_of_comment(job->comment) == 0;
  const bool waits = own && job->state == SlurmJobState::pending;
  if (query.what == "stage_wait") return {{"waits", waits}};
  if (!own) return {{"again", true}};
  if (!waits) throw Error("job " + std::to_string(id) + ": it does not wait any more");
  if (query.what == "stage_places") return places(query.arguments, *job);
  if (query.what == "stage_plans") return plans(query.arguments, *job);
  if (query.what == "stage_report") return report(query.arguments, *job);
  throw Error("query \"" + printable(query.what, 40) +
              "\": not known to this espalierd; are both of the same version?");
}

void QueueProfiles::forget_started() {
  const SlurmSnapshot& slurm = *planner_.last_snapshot();
  std::erase_if(tries_, [&](const auto& entry) {
    const SlurmJob* job = slurm.alive(entry.first.first);
    return job == nullptr || job->state != SlurmJobState::pending;
  });
}

Json QueueProfiles::places(const Json& arguments, const SlurmJob& waiting) {
  const SlurmSnapshot& slurm = *planner_.last_snapshot();
  const PlannerSettings& settings = planner_.settings();
  const std::string name = "job " + std::to_string(waiting.id) + ": ";
  if (settings.shadow) throw Error(name + "the planner runs in shadow mode and has nothing submitted");
  if (waiting.wanted_gpus < 1)
    throw Error(name + "asks Slurm for no GPUs; a movable job is measured when its base has started");
  if (const std::string why = barred(waiting, slurm, settings.rules); !why.empty()) throw Error(name + why);
  if (waiting.wanted_gpus > settings.max_gpus)
    throw Error(name + "asks for " + std::to_string(waiting.wanted_gpus) + " GPUs, and extensions.max_gpus allows " +
                std::to_string(settings.max_gpus) + " for a job: it could not start wider");
  const std::string only = text_of(arguments, "type");
  const JobId without = arguments.contains("profile_job") ? number<JobId>(arguments, "profile_job") : 0;
  const NodeNames closed = ClosedNodes(slurm, settings.rules).to(waiting);
  Json list = Json::array();
  bool tired = false;
  const auto leaves = slurm.jobs.find(without);  // it may be completing already
  const bool replaces = leaves != slurm.jobs.end() && leaves->second.uid == waiting.uid &&
                        is_profile_job(leaves->second) && anchor_of_comment(leaves->second.comment) == waiting.id;
  const ProfileJobs there =
      recent_.with_grants(profile_jobs(slurm, settings.partition, waiting, replaces ? without : 0), slurm, waiting.uid,
                          clock_seconds(), replaces);
  for (const ProfilePlace& place : profile_places(slurm, waiting, settings.profiling, there, closed, only)) {
    int& tries = tries_[{waiting.id, place.type}];
    if (tries >= wire::kMostStageTries) {
      tired = true;
      continue;
    }
    ++tries;
    const std::string grant = settings.grant ? settings.grant(waiting.uid, waiting.id, place.request) : "";
    recent_.add(waiting.uid, clock_seconds(), grant);
    list.push_back({{"type", place.type},
                    {"node", place.request.node},
                    {"cpus", place.request.cpus},
                    {"memory_mb", place.request.memory_mb},
                    {"minutes", place.request.lease_minutes},
                    {"idle", place.idle},
                    {"grant", grant}});
  }
  if (list.empty() && tired)
    throw Error(name + "its profile jobs were submitted " + std::to_string(wire::kMostStageTries) +
                " times; it is measured when it runs");
  return {{"places", std::move(list)}};
}

std::optional<QueueProfiles::Waiting> QueueProfiles::described(const Json& arguments, const SlurmJob& waiting) const {
  const SlurmSnapshot& slurm = *planner_.last_snapshot();
  const auto id = number<JobId>(arguments, "profile_job");
  const SlurmJob* const job = slurm.alive(id);
  if (job == nullptr || job->state == SlurmJobState::pending) return std::nullopt;
  if (job->uid != waiting.uid || !is_profile_job(*job) || anchor_of_comment(job->comment) != waiting.id ||
      job->partition != planner_.settings().partition)
    throw Error("job " + std::to_string(id) + ": is no profile job of job " + std::to_string(waiting.id));
  if (gpus_of(*job) != 1)
    throw Error("job " + std::to_string(id) + ": a profile job has one GPU, this one has " +
                std::to_string(gpus_of(*job)));
  const Holding& held = job->holdings.front();
  Waiting found;
  found.type = type_of(*planner_.site(), {held.node, held.gpus.front()});
  if (found.type.empty()) throw Error("node " + held.node + ": the type of its GPUs is not known");

  const auto body = arguments.find("description");
  if (body == arguments.end()) throw Error("query: description is missing");
  const auto told = wire::from_frame<wire::Description>({wire::Description::type, *body});
  ElasticJob& one = found.job;
  one.id = waiting.id;
  one.uid = waiting.uid;
  one.model = told.model;
  one.parallel = told.parallel;
  one.total_steps = told.total_steps;
  if (const std::string accuracy = text_of(arguments, "accuracy"); !accuracy.empty())
    one.accuracy = accuracy_from(accuracy);
  one.min_gpus = waiting.wanted_gpus;
  const int most = planner_.settings().max_gpus;
  if (one.min_gpus > most) throw Error("job " + std::to_string(waiting.id) + ": has more GPUs than any job grows to");
  const int asked = arguments.contains("max") ? number<int>(arguments, "max") : most;
  one.max_gpus = std::max(std::min(asked, most), one.min_gpus);
  if (one.model.layers < 1) throw Error("query: the description tells no model");
  check_report(one);
  check_size(one, std::max(most, one.min_gpus));
  if (description(one).empty()) throw Error("query: the description does not tell which program it is of");
  return found;
}

std::vector<Knowledge> QueueProfiles::rows_of(const ElasticJob& job) const {
  auto rows = planner_.store().knowledge_of(
      description(job), planner_.settings().share_profiles ? std::nullopt : std::optional<uid_t>(job.uid));
  std::stable_partition(rows.begin(), rows.end(), [&](const Knowledge& row) { return row.uid == job.uid; });
  return rows;
}

Json QueueProfiles::plans(const Json& arguments, const SlurmJob& waiting) {
  const auto told = described(arguments, waiting);
  if (!told) return {{"again", true}};
  Json list = Json::array();
  std::vector<std::string> done;
  bool known = false;
  for (const Knowledge& row : rows_of(told->job)) {
    if (row.gpus != told->type || row.speed.count == 0) continue;
    if (row.profiled && row.uid == told->job.uid) done = row.profiled->plans;
    known = known || !row.profiled || row.speed.count > static_cast<int>(row.profiled->plans.size());
  }
  const Site& site = *planner_.site();
  if (!known)
    for (const PlanToProfile& one :
         plans_to_profile(told->job, site, sheet_for(told->job, site), told->type, kMostStages)) {
      if (std::find(done.begin(), done.end(), measured_form(one.plan, site)) != done.end()) continue;
      if (done.size() + list.size() >= kKeptPlans) break;  // report() would refuse it, with the GPU's time spent
      Json stages = Json::array();
      for (const StageToProfile& stage : one.stages)
        stages.push_back({{"stage", stage.stage}, {"replica", stage.replica}});
      list.push_back({{"plan", one.plan}, {"stages", std::move(stages)}});
    }
  return {{"type", told->type}, {"known", known}, {"plans", std::move(list)}};
}

Json QueueProfiles::report(const Json& arguments, const SlurmJob& waiting) {
  const auto told = described(arguments, waiting);
  if (!told) return {{"again", true}};
  const ElasticJob& job = told->job;
  const Site& site = *planner_.site();
  const std::vector<StageProfile> stages = stages_of(arguments);
  Profile profile = profile_of(stages);
  profile.step = 1;
  if (const auto broken = validate(profile.plan, job.model.layers); !broken.empty())
    throw Error("stage profile: " + broken.front());
  if (profile.plan.gpu_count() > job.max_gpus)
    throw Error("stage profile: its plan has more GPUs than the job may have");
  if (const std::string why = unfit(profile, profile.plan, job.model); !why.empty()) throw Error(why);
  for (const GpuId& gpu : profile.plan.ranks())
    if (type_of(site, gpu) != told->type)
      throw Error("stage profile: GPU " + std::to_string(gpu.index) + " of " + printable(gpu.node, 255) +
                  " in its plan is not of type " + told->type + ", on which it was measured");
  ProfileBook book;
  if (book.add(site, profile, 0, told_lists(job)) == ProfileBook::News::unusable)
    throw Error("stage profile: " + book.trouble());
  const auto measured = book.measured(site);
  if (!measured) throw Error("stage profile: it tells no coefficients");

  Knowledge row;
  row.uid = job.uid;
  row.job = description(job);
  row.gpus = told->type;
  row.first = clock_seconds();
  for (Knowledge& known : planner_.store().knowledge_of(row.job, row.uid))
    if (known.gpus == row.gpus && known.driver.empty()) row = std::move(known);
  row.updated = clock_seconds();
  const std::string form = measured_form(profile.plan, site);
  if (!row.profiled || row.profiled->job != waiting.id) {
    auto plans = row.profiled ? std::move(row.profiled->plans) : std::vector<std::string>();
    row.profiled.emplace().plans = std::move(plans);
    row.profiled->job = waiting.id;
  }
  StageProfiling& told_before = *row.profiled;
  if (std::find(told_before.plans.begin(), told_before.plans.end(), form) != told_before.plans.end())
    return {{"foreseen", told_before.foreseen}};  // an answer was lost, and the report came again
  if (told_before.plans.size() >= kKeptPlans) throw Error("stage profile: enough plans of this job are known");
  told_before.plans.push_back(form);
  told_before.stages += static_cast<int>(stages.size());
  for (const StageProfile& stage : stages) told_before.device_seconds += stage.device_seconds;
  learn(row, *measured, spread_of(stages), site);
  planner_.store().save(row);
  try {
    row.profiled->foreseen = foresee(job);
    planner_.store().save(row);
  } catch (const std::exception& error) {  // the profile is kept, and the start finds its plan without
    planner_.log().line(waiting.uid, spdlog::level::warn, "job {}: its start cannot be foreseen: {}", waiting.id,
                        error.what());
  }
  planner_.log().line(waiting.uid, spdlog::level::info,
                      "job {}: while it waits, {} stage(s) of \"{}\" were profiled on {} (profile {})", waiting.id,
                      stages.size(), form, told->type, row.id);
  return {{"foreseen", row.profiled->foreseen}};
}

// On own GPUs of each type that is known: with the other GPUs that are idle now, and with all of them.
std::vector<std::string> QueueProfiles::foresee(const ElasticJob& job) const {
  const SlurmSnapshot& slurm = *planner_.last_snapshot();
  const Site& site = *planner_.site();
  const auto rows = rows_of(job);
  std::vector<std::string> foreseen;
  std::size_t looked = 0;
  for (const GpuType& type : site.hardware.types) {
    const auto known = recalled(rows, type.name, site);
    if (!known || looked == kMostTypes) continue;
    for (const bool alone : {false, true}) {
      const auto then = if_it_started(slurm, job.id, type.name, alone);
      if (!then) break;
      looked += alone ? 1 : 0;
      ElasticJob started = job;
      started.anchor = then->own;
      started.floor_gpus = started.min_gpus;  // where no plan fits on its own GPUs, none on fewer is looked for
      try {
        const Decision start = planner_.start_decision(started, known, RankOrder::planned, then->slurm);
        const std::string form = plan_form(start.plan, site);
        if (std::find(foreseen.begin(), foreseen.end(), form) == foreseen.end()) foreseen.push_back(form);
      } catch (const Error&) {
        // it would not fit there
      }
    }
  }
  return foreseen;
}

std::string told_by_stages(Store& store, const std::vector<std::int64_t>& rows, JobId job, const Plan& plan,
                           const Site& site) {
  std::optional<Knowledge> newest;
  int stages = 0;
  for (const std::int64_t id : rows) {
    auto row = store.knowledge(id);
    if (!row || !row->profiled) continue;
    stages += row->profiled->stages;
    const bool own = row->profiled->job == job;
    if (!newest || (own && newest->profiled->job != job) ||
        (own == (newest->profiled->job == job) && row->updated > newest->updated))
      newest = std::move(row);
  }
  if (!newest) return "";
  const std::string from = "; " + std::to_string(stages) + (stages == 1 ? " stage was" : " stages were") + " profiled ";
  if (newest->profiled->job != job) return from + "while an earlier job like it waited";
  const auto& foreseen = newest->profiled->foreseen;
  if (foreseen.empty()) return from + "while it waited";
  const bool same = std::find(foreseen.begin(), foreseen.end(), plan_form(plan, site)) != foreseen.end();
  return from + (same ? "while it waited, and this is the plan that was foreseen"
                      : "while it waited; foreseen for other GPUs was: " + foreseen.front());
}

}  // namespace espalier
