// Slurm's accounting: sacct -a -X -P --format=JobID,Submit,Start,End,AllocTRES[,...]. Steps, jobs
// without GPUs and jobs that have not ended are left out. Other columns are ignored.
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {
namespace {

// GPUs in "billing=8,cpu=8,gres/gpu:h100=4,gres/gpu=4". The untyped count includes the typed ones.
// Without an untyped count the typed ones are summed.
int gpus_of(const std::string& tres) {
  int all = 0, typed = 0;
  for (std::size_t begin = 0; begin < tres.size();) {
    const std::size_t end = std::min(tres.find(',', begin), tres.size());
    const std::string item = tres.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = item.find('=');
    if (!item.starts_with("gres/gpu") || equals == std::string::npos) continue;
    int count = 0;
    const auto [stop, error] = std::from_chars(item.data() + equals + 1, item.data() + item.size(), count);
    if (error != std::errc() || stop != item.data() + item.size() || count < 0 || count > 1 << 20)
      throw Damage("AllocTRES \"" + item.substr(0, 40) + "\" has no count");
    (item[8] == ':' ? typed : all) += count;
  }
  return all > 0 ? all : typed;
}

// Seconds of "2-12:30:00" or "02:30:00". UNLIMITED and Partition_Limit tell nothing: 0.
double limit_of(const std::string& text) {
  if (text.empty() || text == "UNLIMITED" || text == "Partition_Limit") return 0;
  int days = 0, hours = 0, minutes = 0, seconds = 0, used = 0;
  const bool right = std::sscanf(text.c_str(), "%5d-%2d:%2d:%2d%n", &days, &hours, &minutes, &seconds, &used) == 4 ||
                     (days = 0, std::sscanf(text.c_str(), "%2d:%2d:%2d%n", &hours, &minutes, &seconds, &used) == 3);
  if (!right || static_cast<std::size_t>(used) != text.size() || std::min({days, hours, minutes, seconds}) < 0)
    throw Damage("Timelimit \"" + text.substr(0, 40) + "\" is no time");
  return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds;
}

}  // namespace

Trace parse_sacct(const std::string& text) {
  return read_rows(
      text, {'|', false, {}, {"JobID", "Submit", "Start", "End", "AllocTRES"}, "sacct"},
      [](const Row& row) -> std::optional<TraceJob> {
        const std::string& id = row.text("JobID");
        if (id.empty()) throw Damage("JobID is empty");
        if (id.find('.') != std::string::npos) return std::nullopt;
        for (const char* column : {"Start", "End"})
          if (row.text(column) == "Unknown" || row.text(column) == "None") return std::nullopt;
        TraceJob job{
            row.time("Submit"), row.time("End") - row.time("Start"), gpus_of(row.text("AllocTRES")), id, {}, 0};
        if (row.has("Timelimit")) job.limit = limit_of(row.text("Timelimit"));
        if (job.seconds < 0) throw Damage("it ends before it starts");
        if (job.gpus == 0 || job.seconds == 0) return std::nullopt;
        return job;
      });
}

}  // namespace espalier::sim
