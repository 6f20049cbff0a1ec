// SenseTime's Helios (Hu et al., SC'21), cluster_log.csv as published: one file per cluster.
#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {

Trace parse_helios(const std::string& text) {
  return read_rows(
      text, {',', true, {}, {"job_id", "gpu_num", "submit_time", "duration"}, "helios"},
      [](const Row& row) -> std::optional<TraceJob> {
        TraceJob job{row.time("submit_time"), row.number("duration"), row.count("gpu_num"), row.text("job_id"), {}, 0};
        if (job.seconds < 0) throw Damage("duration is below zero");
        // CPU jobs, and jobs cancelled while they waited.
        if (job.gpus == 0 || job.seconds == 0) return std::nullopt;
        return job;
      });
}

}  // namespace espalier::sim
