// The Arena (EuroSys'26) artifact's form of PAI, Helios and Philly: real arrivals, invented models
// and GPU counts, and iterations instead of durations. Where the times of its models are given, as
// "bert-1.3B-256" for "bert__1.3B" with a batch of 256, a job does its iterations. Else an iteration
// counts as a second: a workload keeps only the proportions, or scales them.
#include <algorithm>

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
                     if (row.has("gpu_type")) job.gpu_type = row.text("gpu_type");
                     if (row.has("model_name") && row.has("batch_size")) {
                       const std::string& name = row.text("model_name");
                       const std::size_t at = std::min(name.find("__"), name.size());
                       job.model.append(name, 0, at).append("-");
                       if (at < name.size()) job.model.append(name, at + 2).append("-");
                       job.model.append(row.text("batch_size"));
                       job.measured_steps = job.seconds;
                     }
                     return job;
                   });
}

}  // namespace espalier::sim
