// Records of what the planner learnt of earlier jobs.
#include <cmath>

#include "planner/cli/records.hpp"

namespace espalier::cli {
namespace {

std::string whole(const Json& job, const char* key) { return std::to_string(job.value(key, 0)); }
std::string truth(const Json& job, const char* key) { return job.value(key, false) ? "Yes" : "No"; }

// A mean and how often it was measured: {"PauseSeconds", "0.12"}, {"Pauses", "3"}.
void add_estimate(Pairs& line, const Json& estimate, const std::string& name, const std::string& count) {
  line.push_back({name, estimate.is_object() ? number_text(estimate.at("mean").get<double>(), 4) : "(null)"});
  line.push_back({count, std::to_string(estimate.is_object() ? estimate.at("count").get<int>() : 0)});
}

}  // namespace

Record profile_record(const Json& profile) {
  const Json& job = profile.at("job");
  Record record{
      {{"ProfileId", std::to_string(profile.at("id").get<std::int64_t>())},
       {"UserId", user_text(profile.at("uid").get<std::uint32_t>())},
       {"GPUTypes", text_or_null(profile.at("gpus").get<std::string>())},
       {"Driver", text_or_null(profile.at("driver").get<std::string>())}},
      {{"Model", text_or_null(job.value("family", ""))},
       {"Layers", whole(job, "layers")},
       {"Hidden", whole(job, "hidden")},
       {"Heads", whole(job, "heads")},
       {"KeyValueHeads", whole(job, "key_value_heads")},
       {"Intermediate", whole(job, "intermediate")},
       {"Sequence", whole(job, "sequence")},
       {"Vocabulary", whole(job, "vocabulary")},
       {"GlobalBatch", whole(job, "global_batch")}},
      {{"Program", text_or_null(job.value("program", ""))}, {"Runtime", text_or_null(job.value("runtime", ""))}},
      {{"Accuracy", text_or_null(job.value("accuracy", ""))},
       {"Precision", text_or_null(job.value("precision", ""))},
       {"Schedule", text_or_null(job.value("schedule", ""))},
       {"Recompute", truth(job, "recompute")},
       {"ZeRO1", truth(job, "zero1")}},
  };
  Pairs measured;
  add_estimate(measured, profile.at("computation_ms"), "ComputationMs", "Measurements");
  measured.push_back({"Spread", percent_text(profile.at("spread"))});
  record.push_back(std::move(measured));
  if (profile.contains("profiled")) {
    const Json& stages = profile["profiled"];
    record.push_back({{"ProfiledFor", std::to_string(stages.at("job").get<std::uint32_t>())},
                      {"StagesProfiled", whole(stages, "stages")},
                      {"PlansProfiled", whole(stages, "plans")},
                      {"DeviceSeconds", number_text(stages.at("device_seconds").get<double>(), 4)}});
    for (const Json& form : stages.value("foreseen", Json::array()))
      record.push_back({{"Foreseen", form.get<std::string>()}});
  }
  Pairs changes;
  add_estimate(changes, profile.at("pause_seconds"), "PauseSeconds", "Pauses");
  add_estimate(changes, profile.at("start_seconds"), "StartSeconds", "Starts");
  record.push_back(std::move(changes));
  record.push_back({{"First", time_text(profile.at("first").get<double>())},
                    {"Updated", time_text(profile.at("updated").get<double>())},
                    {"Age", std::to_string(std::lround(profile.at("age_seconds").get<double>())) + "s"}});
  return record;
}

}  // namespace espalier::cli
