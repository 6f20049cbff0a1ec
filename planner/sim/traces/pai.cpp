// Alibaba's PAI (Weng et al., NSDI'22), pai_task_table.csv as published, without a header. A row is
// one task of inst_num instances with plan_gpu hundredths of a GPU each. Tasks that have not ended
// or have no GPU are left out. Submission times are not published: a task's start replaces them.
#include <algorithm>
#include <cmath>

#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {

Trace parse_pai(const std::string& text) {
  const std::vector<std::string> columns{"job_name", "task_name", "inst_num", "status",   "start_time",
                                         "end_time", "plan_cpu",  "plan_mem", "plan_gpu", "gpu_type"};
  Trace trace = read_rows(text, {',', true, columns, {}, "pai"}, [](const Row& row) -> std::optional<TraceJob> {
    for (const char* column : {"inst_num", "start_time", "end_time", "plan_gpu"})
      if (row.text(column).empty()) return std::nullopt;
    const double gpus = std::ceil(row.number("inst_num") * row.number("plan_gpu") / 100);
    const double start = row.number("start_time"), end = row.number("end_time");
    if (gpus < 0 || gpus > 1 << 20) throw Damage("inst_num x plan_gpu is no number of GPUs");
    if (end < start) throw Damage("it ends before it starts");
    if (gpus == 0 || start == end || start == 0) return std::nullopt;
    return TraceJob{start, end - start, static_cast<int>(gpus), row.text("job_name") + "/" + row.text("task_name"), {},
                    0};
  });
  trace.cluster_gpus = 6742;
  return trace;
}

}  // namespace espalier::sim
