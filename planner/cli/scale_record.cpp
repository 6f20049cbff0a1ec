// Records of `espalier show scale`.
#include "planner/cli/records.hpp"

namespace espalier::cli {

Record scale_record(const Json& table) {
  return {{{"JobId", std::to_string(table.at("job").get<std::uint32_t>())},
           {"Made", time_text(table.at("time").get<double>())},
           {"ProfiledStep", std::to_string(table.at("step").get<std::int64_t>())},
           {"StepTime", number_text(table.at("measured_step_seconds").get<double>(), 4)},
           {"Scales", table.at("scales").get<std::string>()}}};
}

Record scale_row_record(const Json& row) {
  const auto gigabytes = [&](const char* key) {
    return row.contains(key) ? number_text(row.at(key).get<double>() / 1e9, 3) : "(null)";
  };
  const bool planned = !row.at("plan").is_null();
  Record record{{{"GPUs", std::to_string(row.at("gpus").get<int>())},
                 {"Usable", row.at("dropped").is_null() ? "yes" : "no"},
                 {"Schedule", planned ? row.at("schedule").get<std::string>() : "(null)"},
                 {"Chunks", planned ? std::to_string(row.at("chunks").get<int>()) : "(null)"}},
                {{"StepTime", planned ? number_text(row.at("step_seconds").get<double>(), 4) : "(null)"},
                 {"Speedup", planned ? number_text(row.at("speedup_profiled").get<double>(), 3) : "(null)"},
                 {"ModelledSpeedup", planned ? number_text(row.at("speedup_modelled").get<double>(), 3) : "(null)"},
                 {"PeakMemoryGB", gigabytes("peak_bytes")},
                 {"MemoryLimitGB", gigabytes("limit_bytes")}},
                {{"Plan", planned ? row.at("plan").get<std::string>() : "(null)"}}};
  if (!row.at("dropped").is_null()) record.push_back({{"Dropped", row.at("dropped").get<std::string>()}});
  return record;
}

}  // namespace espalier::cli
