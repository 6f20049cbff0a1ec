// Microsoft's Philly (Jeon et al., ATC'19: 2,490 GPUs). Two forms: the table of the Sia (SOSP'23) artifact,
// timestamp,duration,num_gpus,gpu_time,cluster, and cluster_job_log as published, a list of JSON objects.
#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {
namespace {

constexpr int kPhillyGpus = 2490;

// The job's GPUs are those of its widest attempt. Its seconds are the sum over all attempts.
std::optional<TraceJob> published_job(const nlohmann::json& entry) {
  TraceJob job;
  job.id = entry.at("jobid").get<std::string>();
  const auto submitted = parse_time(entry.at("submitted_time").get<std::string>());
  if (!submitted) throw Damage("submitted_time is no time");
  job.submit = *submitted;
  for (const auto& attempt : entry.at("attempts")) {
    if (!attempt.at("start_time").is_string() || !attempt.at("end_time").is_string()) continue;
    const auto start = parse_time(attempt.at("start_time").get<std::string>());
    const auto end = parse_time(attempt.at("end_time").get<std::string>());
    if (!start || !end || *end < *start) throw Damage("an attempt's times are none");
    job.seconds += *end - *start;
    int gpus = 0;
    for (const auto& node : attempt.at("detail")) gpus += static_cast<int>(node.at("gpus").size());
    job.gpus = std::max(job.gpus, gpus);
  }
  if (job.gpus == 0 || job.seconds <= 0) return std::nullopt;
  return job;
}

}  // namespace

Trace parse_philly(const std::string& text) {
  Trace trace =
      read_rows(text, {',', true, {}, {"timestamp", "duration", "num_gpus"}, "philly"},
                [](const Row& row) -> std::optional<TraceJob> {
                  TraceJob job{row.time("timestamp"), row.positive("duration"), row.count("num_gpus"), {}, {}, 0};
                  if (job.gpus == 0) return std::nullopt;
                  return job;
                });
  for (TraceJob& job : trace.jobs) job.id = std::to_string(job.line);
  trace.cluster_gpus = kPhillyGpus;
  return trace;
}

// Lines are not rows here, so damage is reported by the entry's number.
Trace parse_philly_json(const std::string& text) {
  const auto root = try_json(text);
  if (!root.is_array()) throw Error("philly-json: the file is no JSON list of jobs; give cluster_job_log as published");
  Trace trace;
  trace.cluster_gpus = kPhillyGpus;
  long number = 0;
  for (const auto& entry : root) {
    read_entry(trace, ++number, [&] {
      try {
        return published_job(entry);
      } catch (const nlohmann::json::exception&) {
        throw Damage("jobid, submitted_time, attempts, start_time, end_time, detail or gpus is missing");
      }
    });
  }
  return trace;
}

}  // namespace espalier::sim
