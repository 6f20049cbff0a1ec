// Answers about what was learnt of jobs.
#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/assumed_range.hpp"
#include "planner/daemon/answers_json.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/kept_coefficients.hpp"
#include "planner/daemon/read_answers.hpp"

namespace espalier {
namespace {

constexpr std::int64_t kOnPage = 100;  // a row has at most 2 KiB of text, as its job is bounded

Json describe(const Estimate& estimate) {
  if (estimate.count == 0) return nullptr;
  return {{"count", estimate.count}, {"mean", estimate.mean}, {"spread", estimate.spread()}};
}

Json describe(const Knowledge& row, bool values) {
  Json json{{"id", row.id},
            {"uid", row.uid},
            {"job", Json::parse(row.job)},
            {"gpus", row.gpus},
            {"driver", row.driver},
            {"measurements", row.speed.count},
            {"spread", row.speed.count > 0 ? Json(row.doubt()) : Json(nullptr)},
            {"computation_ms", describe(row.speed)},
            {"pause_seconds", describe(row.pause)},
            {"start_seconds", describe(row.start)},
            {"first", row.first},
            {"updated", row.updated},
            {"age_seconds", std::max(0.0, clock_seconds() - row.updated)}};
  if (row.profiled)
    json["profiled"] = {{"job", row.profiled->job},
                        {"stages", row.profiled->stages},
                        {"plans", row.profiled->plans.size()},
                        {"device_seconds", row.profiled->device_seconds}};
  if (row.profiled && values) json["profiled"]["foreseen"] = row.profiled->foreseen;
  if (values) json["coefficients"] = shown_coefficients(row.coefficients);
  return json;
}

}  // namespace

Json describe_source(const Json& known) {
  if (!known.contains("values")) return nullptr;
  const bool recalled = known.value("recalled", false);
  Json json{{"kind", recalled ? "profiles of earlier jobs" : "own profiles"},
            {"age_seconds", std::max(0.0, clock_seconds() - known.value("time", 0.0))}};
  if (recalled) {
    json["profiles"] = known.value("rows", Json::array());
    return json;
  }
  json["step"] = known.value("step", 0);
  json["steps"] = known.value("steps", 0);
  json["spread"] = known.value("spread", 0.0);
  return json;
}

// Newest first. A page begins with a row's place in that order.
std::string ReadAnswers::scale(const Asked& asked) {
  const auto id = number<JobId>(asked.arguments, "scale");
  described(id, asked);  // refused to those who may not see it
  const auto table = store_.scale(id);
  if (!table)
    throw Error("job " + std::to_string(id) +
                ": has no scale table yet; the planner makes one when it has measured the job");
  return text_of({{"scale", *table}});
}

std::string ReadAnswers::profiles(const Asked& asked) {
  const auto first = asked.arguments.contains("page") ? number<std::int64_t>(asked.arguments, "page") : 0;
  std::int64_t read = 0;
  Json list = Json::array();
  for (const Knowledge& row : store_.newest_knowledge(static_cast<int>(kOnPage), first)) {
    ++read;
    if (asked.viewer.sees(row.uid)) list.push_back(describe(row, false));
  }
  Json reply{{"profiles", std::move(list)}};
  if (read == kOnPage) reply["next"] = first + read;
  return text_of(reply);
}

std::string ReadAnswers::profile(const Asked& asked) {
  const auto id = number<std::int64_t>(asked.arguments, "profile");
  const auto row = store_.knowledge(id);
  if (!row || !asked.viewer.sees(row->uid))
    throw Error("profile " + std::to_string(id) + ": there is none; see espalier show profiles");
  return text_of({{"profile", describe(*row, true)}});
}

}  // namespace espalier
