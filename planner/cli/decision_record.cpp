#include <cstdio>

#include "planner/cli/records.hpp"

namespace espalier::cli {
namespace {

std::string acquire_text(const Json& acquire) {
  std::string all;
  for (const Json& request : acquire)
    all += (all.empty() ? "" : ",") + request.at("node").get<std::string>() + ":" +
           std::to_string(request.at("gpus").get<int>());
  return text_or_null(all);
}

std::string release_text(const Json& release) {
  std::string all;
  for (const Json& job : release) all += (all.empty() ? "" : ",") + std::to_string(job.get<std::uint32_t>());
  return text_or_null(all);
}

// Time from one moment to another, in ms. "(null)": one of them did not happen.
std::string span(const Json& moments, const char* from, const char* to) {
  if (!moments.contains(from) || !moments.contains(to)) return "(null)";
  const double ms = (moments[to].get<double>() - moments[from].get<double>()) * 1000;
  return ms < 0.05 ? "0.0" : number_text(ms, 1);
}

// The prediction's error, in percent of the measurement. "(null)": one of them is unknown.
std::string error_text(double predicted, double measured) {
  if (!(predicted > 0) || !(measured > 0)) return "(null)";
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f%%", (predicted / measured - 1) * 100);
  return text;
}

}  // namespace

Record decision_record(const Json& d) {
  const Json moments = d.value("moments", Json::object());
  Record record{
      {{"DecisionId", std::to_string(d.at("id").get<std::int64_t>())},
       {"Time", time_text(d.at("time").get<double>())},
       {"Trigger", d.at("trigger").get<std::string>()}},
      {{"Kind", d.at("kind").get<std::string>()},
       {"JobId", std::to_string(d.at("job").get<std::uint32_t>())},
       {"Outcome", d.at("outcome").get<std::string>().empty() ? "under way" : d.at("outcome").get<std::string>()}},
      {{"Acquire", acquire_text(d.at("acquire"))}, {"Release", release_text(d.at("release"))}},
      {{"Plan", plan_text(d.at("plan"))},
       {"Layers", layers_text(d.at("plan"))},
       {"PlanGPUs", ranks_text(d.at("plan"))}},
      {{"PredictedStep", number_text(d.at("predicted_step_seconds").get<double>(), 4)},
       {"MeasuredStep", number_text(d.at("measured_step_seconds").get<double>(), 4)},
       {"PredictionError",
        error_text(d.at("predicted_step_seconds").get<double>(), d.at("measured_step_seconds").get<double>())},
       {"PauseMs", number_text(d.at("pause_ms").get<double>(), 1)}},
      {{"EventToSeenMs", span(moments, "event", "seen")},
       {"SeenToDecidedMs", span(moments, "seen", "decided")},
       {"DecidedToProposedMs", span(moments, "decided", "proposed")},
       {"ProposedToFinishedMs", span(moments, "proposed", "finished")}},
  };
  Pairs phases;
  const Json timed = d.value("phases_ms", Json::object());
  for (const auto& [name, ms] : timed.items()) phases.push_back({name + "Ms", number_text(ms.get<double>(), 1)});
  record.push_back(std::move(phases));
  if (const std::string objective = d.value("objective", ""); !objective.empty())
    record.push_back({{"Objective", objective}});
  record.push_back({{"Reason", text_or_null(d.at("reason").get<std::string>())}});
  return record;
}

std::vector<Record> candidate_records(const Json& decision) {
  std::vector<Record> records;
  int number = 0;
  const Json candidates = decision.value("candidates", Json::array());
  for (const Json& candidate : candidates) {
    const auto lost = candidate.at("rejected_by").get<std::string>();
    char benefit[32];
    std::snprintf(benefit, sizeof benefit, "%.3f", candidate.at("benefit").get<double>());
    records.push_back({{{"Candidate", std::to_string(++number)},
                        {"AddedGPUs", std::to_string(candidate.at("gpus").get<int>())},
                        {"PredictedStep", number_text(candidate.at("predicted_step_seconds").get<double>(), 4)},
                        {"Benefit", benefit}},
                       {{"Plan", text_or_null(candidate.at("plan").get<std::string>())}},
                       {{"LostBecause", lost.empty() ? "(null): it was chosen" : lost}}});
  }
  return records;
}

}  // namespace espalier::cli
