// Espalier's own format: id,submit,seconds,gpus[,model][,steps][,gpu_type][,limit]. submit: seconds or a
// date. model: a model of the table of kinds.
#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {

Trace parse_plain_csv(const std::string& text) {
  return read_rows(
      text, {',', true, {}, {"id", "submit", "seconds", "gpus"}, "csv"}, [](const Row& row) -> std::optional<TraceJob> {
        TraceJob job{row.time_or_date("submit"), row.positive("seconds"), row.count("gpus"), row.text("id"), {}, 0};
        if (row.has("model")) job.model = row.text("model");
        if (row.has("steps") && !row.text("steps").empty()) job.steps = row.positive("steps");
        if (row.has("gpu_type")) job.gpu_type = row.text("gpu_type");
        if (row.has("limit") && !row.text("limit").empty()) job.limit = row.positive("limit");
        if (job.gpus == 0) return std::nullopt;
        return job;
      });
}

}  // namespace espalier::sim
