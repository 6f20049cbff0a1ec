#include "planner/daemon/read_answers.hpp"

#include <map>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/search_phase.hpp"
#include "planner/daemon/answers_json.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/growth_obstacles.hpp"
#include "planner/daemon/kept_coefficients.hpp"

namespace espalier {
namespace {

constexpr std::size_t kExplained = 512u << 10;  // bytes of decisions in an explanation

}  // namespace

ReadAnswers::Answer ReadAnswers::find(const std::string& what) {
  static const std::map<std::string, Answer> all{
      {"job", &ReadAnswers::job},           {"jobs", &ReadAnswers::jobs},           {"scale", &ReadAnswers::scale},
      {"decision", &ReadAnswers::decision}, {"decisions", &ReadAnswers::decisions}, {"nodes", &ReadAnswers::nodes},
      {"profiles", &ReadAnswers::profiles}, {"profile", &ReadAnswers::profile},     {"usage", &ReadAnswers::usage},
      {"explain", &ReadAnswers::explain}};
  const auto found = all.find(what);
  return found == all.end() ? nullptr : found->second;
}

bool ReadAnswers::answers(const std::string& what) { return find(what) != nullptr; }

std::string ReadAnswers::answer(const std::string& what, const Json& arguments, const PlannerView& view,
                                const Viewer& viewer) {
  return (this->*find(what))({arguments, view, viewer});
}

Json ReadAnswers::described(JobId id, const Asked& asked) {
  const Error none("job " + std::to_string(id) + ": not an elastic job that this planner has seen");
  Json json;
  if (const JobView* live = asked.view.job(id)) {
    if (!asked.viewer.sees(live->job.uid)) throw none;
    json = describe_job(live->job, live->connected, false);
    if (live->movable) json["bases"] = live->bases;
    if (asked.view.settings->plan_trials > 0 && !live->job.parallel.first && !data_parallel_only(live->job))
      json["plan_trials"] = {{"measured", live->plans_measured}, {"over", live->trials_over}};
  } else {
    const auto stored = store_.job(id);
    if (!stored || !asked.viewer.sees(stored->job.uid)) throw none;
    json = describe_job(stored->job, false, stored->ended);
  }
  if (const std::string why = searched_lists(id, json); !why.empty()) json["searched_lists"] = why;
  const Json known = store_.coefficients(id).value_or(Json::object());
  json["coefficients"] = shown_coefficients(known.value("values", Json(nullptr)));
  json["coefficients_settled"] = known.value("settled", false);
  json["coefficients_measured"] = known.value("measured", Json::object());
  json["coefficients_source"] = describe_source(known);
  json["pipeline"] = known.value("pipeline", Json(nullptr));
  return json;
}

// Why the job's pipeline runs lists that were searched for it; empty: it does not. The outcome that brought them is its
// newest one then.
std::string ReadAnswers::searched_lists(JobId id, const Json& job) {
  DecisionQuery latest;
  latest.job = id;
  latest.uid = job.at("uid").get<std::uint32_t>();  // not what another user's job of the same number did
  latest.limit = 64;                                // the newest of them may be proposals that were given up
  latest.bytes = kExplained;
  latest.candidates = false;
  for (const DecisionRecord& record : store_.decisions(latest).records) {
    if (record.decision.outcome != "committed") continue;
    const bool runs = record.phases_ms.contains(kSearchPhase) && record.generation == job.value("generation", -1);
    return runs && Json(record.decision.plan) == job.value("plan", Json()) ? record.decision.reason : "";
  }
  return "";
}

std::string ReadAnswers::job(const Asked& asked) {
  return text_of({{"job", described(number<JobId>(asked.arguments, "job"), asked)}});
}

std::string ReadAnswers::decision(const Asked& asked) {
  const auto id = number<std::int64_t>(asked.arguments, "decision");
  const auto record = store_.decision(id);
  if (!record || !asked.viewer.sees(record->uid))
    throw Error("decision " + std::to_string(id) + ": there is none, or it is too old");
  return text_of({{"decision", describe_decision(*record, true)}});
}

std::string ReadAnswers::explain(const Asked& asked) {
  const auto id = number<JobId>(asked.arguments, "job");
  Json json{{"job", described(id, asked)}};
  const PlannerView& view = asked.view;
  const JobView* live = view.job(id);
  json["obstacles"] = live == nullptr ? std::vector<std::string>{"it does not run"}
                                      : growth_obstacles(*live, view.promised, view.slurm.get(), view.weighed_job(id),
                                                         *view.settings, clock_seconds());
  if (const Weighed* weighed = live == nullptr ? nullptr : view.weighed_job(id); weighed && weighed->standing)
    json["objective"] = describe(*weighed->standing);
  Json list = Json::array();
  DecisionQuery latest;
  latest.job = id;
  latest.uid = json["job"].at("uid").get<std::uint32_t>();  // not what another user's job of the same number did
  latest.limit = 5;
  latest.bytes = kExplained;
  for (const auto& record : store_.decisions(latest).records) list.push_back(describe_decision(record, true));
  json["decisions"] = std::move(list);  // newest first
  Json steps = Json::array();
  for (const auto& t : store_.transitions(id, 20, latest.uid))
    steps.push_back({{"time", t.time}, {"from", t.from}, {"event", t.event}, {"to", t.to}, {"decision", t.decision}});
  json["transitions"] = std::move(steps);
  return text_of(json);
}

}  // namespace espalier
