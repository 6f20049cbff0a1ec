#include <pwd.h>

#include <cctype>

#include "planner/cli/records.hpp"

namespace espalier::cli {
namespace {

std::string user_text(std::uint32_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return std::string(entry == nullptr ? "(null)" : entry->pw_name) + "(" + std::to_string(uid) + ")";
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

Record job_record(const Json& job) {
  const Json& plan = job.at("plan");
  const bool ended = job.value("ended", false);
  const Json tokens = job.value("tokens_per_second", Json(nullptr));
  return {
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
      {{"AnchorGPUs", holdings_text(job.at("anchor"), false)}},
      {{"Extensions", holdings_text(job.at("extensions"), true)}},
      {{"Plan", plan_text(plan)}, {"Layers", layers_text(plan)}, {"PlanGPUs", ranks_text(plan)}},
      {{"StepTime", number_text(job.at("step_seconds").get<double>(), 4)},
       {"TokensPerSec", tokens.is_number() ? number_text(tokens.get<double>(), 1) : "(null)"}},
  };
}

}  // namespace espalier::cli
