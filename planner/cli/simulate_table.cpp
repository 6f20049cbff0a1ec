// The results of a simulation as text for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/simulate_study.hpp"
#include "planner/core/counted.hpp"

namespace espalier::cli {
namespace {

constexpr std::size_t kShownDamage = 10;

// "45 s", "12.3 min", "5.2 h", "3.1 d": three digits.
std::string duration(double seconds) {
  if (seconds < 0) return "-" + duration(-seconds);
  if (seconds < 100) return fmt::format("{:.3g} s", seconds);
  if (seconds < 6000) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 360000) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{:.3g} d", seconds / 86400);
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += c == 0 ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("  {:>{}}", row[c], widths[c]);
    text += line + "\n";
  }
  return text;
}

std::string heading(const Study& study) {
  const sim::Workload& load = study.workload;
  std::string text = fmt::format(
      "{}: {}, {}. {}: {} of {}, {:.4g} GPU-hours, {} of the cluster until the last submission; "
      "seed {}.\n",
      study.cluster, counted(study.nodes, "node"), counted(study.gpus, "GPU"), study.arguments.trace, load.jobs.size(),
      counted(load.in_window, "job"), load.gpu_seconds / 3600, percent(study.offered_load()),
      study.arguments.workload.seed);
  for (const std::string& note : study.notes) text += note + "\n";
  if (study.trace.left_out > 0)
    text +=
        fmt::format("{} of the trace left out: no GPUs, not ended, or steps.\n", counted(study.trace.left_out, "row"));
  const auto& damaged = study.trace.damaged;
  if (damaged.empty()) return text;
  text += fmt::format("{} of the trace skipped:\n", counted(static_cast<std::int64_t>(damaged.size()), "damaged row"));
  for (std::size_t i = 0; i < std::min(damaged.size(), kShownDamage); ++i)
    text += fmt::format("  line {}: {}\n", damaged[i].line, damaged[i].why);
  if (damaged.size() > kShownDamage)
    text += fmt::format("  and {} more; --json lists all\n", damaged.size() - kShownDamage);
  return text;
}

}  // namespace

std::string study_table(const Study& study) {
  std::vector<std::vector<std::string>> rows{{"policy", "avg JCT", "vs fifo", "weighted", "p99 JCT", "makespan", "used",
                                              "queueing", "worst delay", "delayed", "changes", "lost GPU-h"}};
  const bool deadlines = !study.summaries.empty() && study.summaries.front().deadlines > 0;
  if (deadlines) rows[0].insert(rows[0].end(), {"in time", "worst rho"});
  const bool latency = study.arguments.latency;
  const bool mixed = !study.summaries.empty() && study.summaries.front().elastic_jobs < study.summaries.front().jobs;
  if (mixed) rows[0].insert(rows[0].end(), {"elastic", "their JCT", "vs fifo", "others' queueing", "to fifo's"});
  const bool movable = study.arguments.workload.movable_share > 0;
  if (movable) rows[0].insert(rows[0].end(), {"smaller starts", "base moves"});
  if (study.bound) {
    rows[0].push_back("over bound");
    std::vector<std::string>& row =
        rows.emplace_back(std::vector<std::string>{kBound, duration(study.bound->seconds())});
    row.resize(rows[0].size());
  }
  if (latency) rows[0].insert(rows[0].end(), {"decision P50", "P90", "P99"});
  for (std::size_t i = 0; i < study.summaries.size(); ++i) {
    const sim::Summary& one = study.summaries[i];
    rows.push_back({one.policy, duration(one.avg_jct), fmt::format("{:.3f}x", one.avg_jct_ratio),
                    duration(one.weighted_jct), duration(one.p99_jct), duration(one.makespan), percent(one.utilization),
                    duration(one.avg_queueing), duration(one.worst_delay), percent(one.delayed_share),
                    std::to_string(one.redeployments), fmt::format("{:.1f}", one.lost_gpu_hours)});
    if (deadlines)
      rows.back().insert(rows.back().end(), {percent(one.deadlines_kept), fmt::format("{:.3g}", one.worst_rho)});
    if (mixed)
      rows.back().insert(
          rows.back().end(),
          {std::to_string(one.elastic_jobs), duration(one.elastic_jct), fmt::format("{:.3f}x", one.elastic_jct_ratio),
           duration(one.others_queueing), fmt::format("{:.3f}", one.others_queueing_ratio)});
    if (movable) {
      int smaller = 0, moves = 0;
      for (const sim::JobOutcome& job : study.runs[i].jobs) smaller += job.started_smaller, moves += job.moves;
      rows.back().insert(rows.back().end(), {std::to_string(smaller), std::to_string(moves)});
    }
    if (study.bound) rows.back().push_back(fmt::format("{:.2f}", one.avg_jct / study.bound->seconds()));
    if (!latency) continue;
    for (const double share : {0.5, 0.9, 0.99})
      rows.back().push_back(fmt::format("{:.3g} ms", 1000 * sim::percentile(study.runs[i].latencies, share)));
  }
  return heading(study) + "\n" + aligned(rows);
}

std::string sweep_table(const Sweep& sweep, const std::vector<Study>& studies) {
  std::vector<std::vector<std::string>> rows{{sweep.key}};
  const bool bound = studies.front().bound.has_value();
  if (bound) rows[0].emplace_back(kBound);
  for (const sim::Summary& one : studies.front().summaries) {
    rows[0].push_back(one.policy);
    rows[0].push_back("vs fifo");
    if (bound) rows[0].push_back("over bound");
  }
  for (std::size_t i = 0; i < studies.size(); ++i) {
    rows.push_back({sweep.values[i]});
    if (bound) rows.back().push_back(duration(studies[i].bound->seconds()));
    for (const sim::Summary& one : studies[i].summaries) {
      rows.back().push_back(duration(one.avg_jct));
      rows.back().push_back(fmt::format("{:.3f}x", one.avg_jct_ratio));
      if (bound) rows.back().push_back(fmt::format("{:.2f}", one.avg_jct / studies[i].bound->seconds()));
    }
  }
  return heading(studies.front()) + "\nAverage JCT:\n" + aligned(rows);
}

}  // namespace espalier::cli
