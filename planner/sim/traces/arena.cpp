// The Arena (EuroSys'26) artifact's form of PAI, Helios and Philly: real arrivals, invented models
// and GPU counts, and iterations instead of durations. An iteration counts as a second: a workload
// keeps only the proportions, or scales them.
#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {

Trace parse_arena(const std::string& text) {
  return read_rows(text, {',', true, {}, {"job_id", "submission_time", "num_iteration", "num_gpu"}, "arena"},
                   [](const Row& row) -> std::optional<TraceJob> {
                     TraceJob job{row.time("submission_time"),
                                  row.positive("num_iteration"),
                                  row.count("num_gpu"),
                                  row.text("job_id"),
                                  {},
                                  0};
                     if (job.gpus == 0) return std::nullopt;
                     return job;
                   });
}

}  // namespace espalier::sim
