// Prints the job, the cluster, the assumptions, and a line for each number of GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/plan_report.hpp"
#include "planner/core/counted.hpp"

namespace espalier::cli {
namespace {

constexpr std::size_t kColumns = 100;

// Breaks lines at spaces and indents all lines but the first.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string all, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      all += line + "\n";
      line = std::string(indent, ' ') + word;
    } else {
      line += (begin == 0 ? "" : " ") + word;
    }
    begin = end + 1;
  }
  return all + line + "\n";
}

// "2" or "2-4".
template <class Of>
std::string degree(const Plan& plan, Of of) {
  const auto [low, high] = std::minmax_element(plan.stages.begin(), plan.stages.end(),
                                               [&](const Stage& a, const Stage& b) { return of(a) < of(b); });
  return of(*low) == of(*high) ? fmt::format("{}", of(*low)) : fmt::format("{}-{}", of(*low), of(*high));
}

std::string degrees(const PlanReport& report, const Plan& plan) {
  const std::string name = schedule_of(report, plan);
  std::string schedule = plan.schedule.empty() && name == "1f1b" ? "" : " " + name;
  if (name == "interleaved" || name == "gpipe")
    schedule += fmt::format("-{}", std::max<std::size_t>(1, plan.chunks.size() / plan.stages.size()));
  return fmt::format("pp{}/dp{}/tp{}{}", plan.stages.size(),
                     degree(plan, [](const Stage& s) { return s.replicas.size(); }),
                     degree(plan, [](const Stage& s) { return s.tp; }), schedule);
}

std::string describe_job(const PlanJob& job) {
  const ModelShape& shape = job.shape;
  return fmt::format("{}: {}, {}, hidden {}, {}, vocabulary {}; {} of {} a step, {}{}{}{}", job.model, shape.family,
                     counted(shape.layers, "layer"), shape.hidden, counted(shape.heads, "head"), shape.vocabulary,
                     counted(shape.global_batch, "sample"), counted(shape.sequence, "token"), job.precision,
                     job.training.recompute ? ", recompute" : "", job.training.zero1 ? ", zero1" : "",
                     job.accuracy == Accuracy::bitwise ? ", bitwise" : "");
}

std::string describe_cluster(const PlanReport& report) {
  std::vector<int> counts(report.site.hardware.types.size());
  const Topology& topology = report.site.topology;
  for (int node = 0; node < topology.nodes(); ++node)
    for (const std::int16_t type : topology.gpu_types(node)) ++counts[static_cast<std::size_t>(type)];
  std::string gpus;
  for (std::size_t t = 0; t < counts.size(); ++t)
    gpus += fmt::format("{}{} {}", t ? ", " : "", counts[t], report.site.hardware.types[t].name);
  return fmt::format("{}: {}, {}", report.cluster, counted(topology.nodes(), "node"), gpus);
}

std::string line_of(const PlanReport& report, const PlannedCount& planned) {
  if (!planned.plan) return wrapped(fmt::format("{:>5}  {}", planned.gpus, planned.why_not), 7);
  const char* mark = planned.measured ? "" : "~";
  const char* compared = planned.measured && report.base().measured ? "" : "~";
  const int used = planned.plan->gpu_count();
  return fmt::format(
      "{:>5}  {:<20} {:>5} {:>10} {:>11} {:>8} {:>11} {:>8}{}\n", planned.gpus, degrees(report, *planned.plan),
      planned.plan->micro_batches, fmt::format("{}{:.4g}", mark, planned.seconds()),
      fmt::format("{}{:.0f}", mark, report.tokens_per_second(planned)),
      fmt::format("{}{:.2f}", compared, report.speedup(planned)),
      fmt::format("{}{:.0f}%", compared, 100 * report.efficiency(planned)),
      fmt::format("~{:.0f}%", 100 * memory_share(planned)), used < planned.gpus ? fmt::format("  uses {}", used) : "");
}

}  // namespace

std::string plan_table(const PlanReport& report) {
  std::string text = wrapped(describe_job(report.job), 2) + wrapped(describe_cluster(report), 2);
  if (report.coefficients.measurement) text += wrapped("measured: " + *report.coefficients.measurement, 2);
  for (const std::string& note : report.notes) text += wrapped("note: " + note, 2);
  for (const std::string& sentence : report.coefficients.assumed) text += wrapped("~ assumed: " + sentence, 2);
  text += fmt::format("\n{:>5}  {:<20} {:>5} {:>10} {:>11} {:>8} {:>11} {:>8}\n", "GPUs", "plan", "N_b", "step s",
                      "tokens/s", "speedup", "efficiency", "memory");
  for (const PlannedCount& planned : report.plans) text += line_of(report, planned);
  return text;
}

}  // namespace espalier::cli
