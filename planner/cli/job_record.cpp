#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include "planner/cli/records.hpp"

namespace espalier::cli {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Of one job alone: where its coefficients come from, and which of them were measured.
Record coefficient_lines(const Json& job) {
  const Json source = job.value("coefficients_source", Json(nullptr));
  if (!source.is_object()) return {{{"Coefficients", "assumed"}}};
  std::string measured, assumed;
  const Json states = job.value("coefficients_measured", Json::object());
  for (const auto& [name, state] : states.items()) {
    std::string& list = state.get<bool>() ? measured : assumed;
    list += (list.empty() ? "" : ",") + name;
  }
  const bool settled = job.value("coefficients_settled", false), own = !source.contains("profiles");
  Record lines{{{"Coefficients", !own      ? "recalled"
                                 : settled ? "measured"
                                           : "unsettled"},
                {"CoefficientsAge", std::to_string(std::lround(source.value("age_seconds", 0.0))) + "s"}}};
  if (own) {
    lines[0].push_back({"ProfiledSteps", std::to_string(source.value("steps", 0))});
    lines[0].push_back({"LastProfiled", std::to_string(source.value("step", std::int64_t{0}))});
    lines[0].push_back({"Spread", percent_text(source.value("spread", Json(nullptr)))});
  } else {
    std::string ids;
    for (const Json& id : source.at("profiles")) ids += (ids.empty() ? "" : ",") + id.dump();
    lines[0].push_back({"ProfileIds", text_or_null(ids)});
  }
  lines.push_back({{"Measured", text_or_null(measured)}, {"Assumed", text_or_null(assumed)}});
  return lines;
}

}  // namespace

Record job_record(const Json& job) {
  const Json& plan = job.at("plan");
  const bool ended = job.value("ended", false);
  const Json tokens = job.value("tokens_per_second", Json(nullptr));
  Record record{
      {{"JobId", std::to_string(job.at("id").get<std::uint32_t>())},
       {"Name", text_or_null(job.at("name").get<std::string>())},
       {"UserId", user_text(job.at("uid").get<std::uint32_t>())}},
      {{"State", ended ? "ENDED" : upper(job.at("phase").get<std::string>())},
       {"Launcher", job.value("connected", false) ? "connected" : "away"},
       {"Held", job.at("held").get<bool>() ? "Yes" : "No"}},
      {{"Generation", std::to_string(job.at("generation").get<int>())},
       {"Step", std::to_string(job.at("step").get<std::int64_t>())},
       {"TotalSteps", std::to_string(job.at("total_steps").get<std::int64_t>())}},
      {{"GPUs", std::to_string(job.value("gpus", 0))},
       {"MinGPUs", std::to_string(job.at("min_gpus").get<int>())},
       {"MaxGPUs", std::to_string(job.at("max_gpus").get<int>())},
       {"Accuracy", job.at("accuracy").get<std::string>()}},
      {{job.contains("bases") ? "BaseGPUs" : "AnchorGPUs", holdings_text(job.at("anchor"), false)}},
      {{"Extensions", holdings_text(job.at("extensions"), true)}},
      {{"Plan", plan_text(plan)}, {"Layers", layers_text(plan)}, {"PlanGPUs", ranks_text(plan)}},
      {{"StepTime", number_text(job.at("step_seconds").get<double>(), 4)},
       {"TokensPerSec", tokens.is_number() ? number_text(tokens.get<double>(), 1) : "(null)"}},
  };
  if (job.contains("bases")) {
    std::string bases;
    for (const Json& id : job.at("bases")) bases += (bases.empty() ? "" : ",") + id.dump();
    record.insert(record.begin() + 4, Pairs{{"Movable", "Yes"}, {"Bases", text_or_null(bases)}});
  }
  if (job.contains("searched_lists"))
    record.push_back(
        {{"Lists", "searched"}, {"ListsBecause", text_or_null(job.at("searched_lists").get<std::string>())}});
  else if (job.contains("own_lists")) {
    const auto& own = job.at("own_lists");
    const bool run = own.value("run", false);
    record.push_back(
        {{"Lists", run ? "own" : "none"},
         {"ListsBecause", fmt::format("the program's --schedule FILE is for {} stages and {} micro-batches",
                                      own.value("stages", 0), own.value("micro_batches", 0))}});
  }
  if (job.contains("plan_trials"))
    record.push_back({{"PlansMeasured", std::to_string(job.at("plan_trials").value("measured", 0))},
                      {"PlanTrials", job.at("plan_trials").value("over", false) ? "over" : "open"}});
  if (job.contains("coefficients_settled"))
    for (Pairs& line : coefficient_lines(job)) record.push_back(std::move(line));
  return record;
}

}  // namespace espalier::cli
