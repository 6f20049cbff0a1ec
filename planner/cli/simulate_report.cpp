// Writes a simulation's page: one self-contained HTML file, for a browser and for paper.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "planner/cli/simulate_plots.hpp"
#include "planner/cli/simulate_study.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"

namespace espalier::cli {
namespace {

constexpr const char* kStyle = R"(
body { font: 16px/1.5 Helvetica, Arial, sans-serif; color: #222; background: #fff; max-width: 62em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: .2em; } h2 { font-size: 1.15em; margin-top: 2em; }
p.facts { color: #555; margin-top: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9em; font-variant-numeric: tabular-nums; }
th, td { padding: .35em .6em; text-align: right; border-bottom: 1px solid #ddd; }
th { color: #555; font-weight: normal; border-bottom: 2px solid #888; } th:first-child, td:first-child { text-align: left; }
figure { margin: 1em 0; break-inside: avoid; } svg { width: 100%; height: auto; }
details { margin: 1em 0; color: #555; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } figure { width: 49%; display: inline-block; vertical-align: top; } }
)";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '&') result += "&amp;";
    else if (c == '"') result += "&quot;";
    else result += c;
  }
  return result;
}

std::string minutes(double seconds) { return fmt::format("{:.1f}", seconds / 60); }

std::string summary_table(const Study& study) {
  std::string html =
      "<table><tr><th>policy</th><th>avg JCT, min</th><th>vs fifo</th><th>weighted JCT, min</th><th>p99 JCT, min</th>"
      "<th>makespan, h</th><th>GPUs used</th><th>queueing, min</th><th>worst delay, min</th><th>jobs delayed</th>"
      "<th>changes</th><th>GPU-h lost</th>" +
      std::string(study.bound ? "<th>over bound</th>" : "") + "</tr>\n";
  for (const sim::Summary& one : study.summaries)
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.2f}&times;</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{:.1f}%</td>"
        "<td>{}</td><td>{}</td><td>{:.1f}%</td><td>{}</td><td>{:.1f}</td>{}</tr>\n",
        escaped(one.policy), minutes(one.avg_jct), one.avg_jct_ratio, minutes(one.weighted_jct), minutes(one.p99_jct),
        one.makespan / 3600, 100 * one.utilization, minutes(one.avg_queueing), minutes(one.worst_delay),
        100 * one.delayed_share, one.redeployments, one.lost_gpu_hours,
        study.bound ? fmt::format("<td>{:.2f}</td>", one.avg_jct / study.bound->seconds()) : "");
  return html + "</table>\n";
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

std::vector<Plot> plots_of(const Study& study) {
  Plot jct{"Job completion time", "minutes", "jobs", true, false, {}};
  Plot used{"GPUs in use", "hours since the first submission", "of the cluster", false, true, {}};
  Plot delay{"Each job against fifo: completion time there / here", "times faster", "jobs", true, false, {}};
  Plot latency{"Time to decide", "milliseconds, on this machine", "decisions", true, false, {}};
  double until = 0;
  for (const sim::Summary& one : study.summaries) until = std::max(until, one.makespan);
  std::size_t style = 0;
  const auto add = [&style](Plot& plot, Curve curve) {
    curve.style = style;
    plot.curves.push_back(std::move(curve));
  };
  for (const sim::PolicyRun& run : study.runs) {
    std::vector<double> jcts, faster;
    for (const sim::JobOutcome& job : run.jobs) jcts.push_back(job.jct() / 60);
    add(jct, distribution(run.policy, jcts));
    add(used, utilization(run, until, 96));
    for (const double slowdown : sim::slowdowns(run, study.reference)) faster.push_back(1 / slowdown);
    if (run.policy != "fifo") add(delay, distribution(run.policy, faster));
    if (!run.latencies.empty()) add(latency, distribution(run.policy, scaled(run.latencies, 1000)));
    ++style;
  }
  std::vector<Plot> plots{std::move(jct), std::move(used)};
  if (!delay.curves.empty()) plots.push_back(std::move(delay));
  if (!latency.curves.empty()) plots.push_back(std::move(latency));
  return plots;
}

std::string facts(const Study& study) {
  return fmt::format(
      "{}, {}. {} of {} of {}, {:.4g} GPU-hours: {:.1f}% of the cluster until the last "
      "submission. Seed {}. {} skipped, {} left out.{}",
      counted(study.nodes, "node"), counted(study.gpus, "GPU"), study.workload.jobs.size(),
      counted(study.workload.in_window, "job"), escaped(study.arguments.trace), study.workload.gpu_seconds / 3600,
      100 * study.offered_load(), study.arguments.workload.seed,
      counted(static_cast<std::int64_t>(study.trace.damaged.size()), "damaged row"), study.trace.left_out,
      study.bound ? " No policy can have an average JCT below " + minutes(study.bound->seconds()) + " min." : "");
}

}  // namespace

std::string write_report(const Study& study, const std::string& folder) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Espalier: simulation of " +
      escaped(study.cluster) + "</title><style>" + kStyle + "</style></head><body>\n<h1>" + escaped(study.cluster) +
      ": what elasticity would do</h1>\n<p class=\"facts\">" + facts(study) + "</p>\n" + summary_table(study);
  for (const Plot& plot : plots_of(study)) html += "<figure>" + draw(plot) + "</figure>\n";
  if (!study.notes.empty()) {
    html += "<h2>Notes</h2><ul>";
    for (const std::string& note : study.notes) html += "<li>" + escaped(note) + "</li>";
    html += "</ul>\n";
  }
  if (!study.trace.damaged.empty()) {
    html += "<details><summary>Damaged rows</summary><ul>";
    for (const sim::DamagedRow& row : study.trace.damaged)
      html += fmt::format("<li>line {}: {}</li>", row.line, escaped(row.why));
    html += "</ul></details>\n";
  }
  html += "</body></html>\n";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::string path = (std::filesystem::path(folder) / "index.html").string();
  std::ofstream out(path, std::ios::binary);
  out << html;
  out.close();
  if (!out) throw Error(path + ": cannot be written: " + std::strerror(errno) + "; name another folder by --report");
  return path;
}

}  // namespace espalier::cli
