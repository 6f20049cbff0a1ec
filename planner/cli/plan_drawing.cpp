// Draws one plan as text, with stages from top to bottom.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "planner/cli/plan_report.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::cli {
namespace {

constexpr int kBar = 40;

// "n[1-2]:8 n3:4": nodes grouped by the number of their GPUs in the stage, largest number first.
std::string gpus_text(const Stage& stage) {
  std::map<std::string, int> nodes;
  for (const Replica& replica : stage.replicas)
    nodes[replica.gpus.front().node] += static_cast<int>(replica.gpus.size());
  std::map<int, std::vector<std::string>, std::greater<>> alike;
  for (const auto& [node, gpus] : nodes) alike[gpus].push_back(node);
  std::string text;
  for (const auto& [gpus, names] : alike)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", fold_hosts(names), gpus);
  return text;
}

// The layers of each stage: "0-2", or with chunks "0-1,12-13".
std::vector<std::string> layers_text_by_stage(const Plan& plan) {
  std::vector<std::string> texts(plan.stages.size());
  int first = 0;
  for (const Chunk& chunk : plan.model_chunks()) {
    std::string& text = texts[static_cast<std::size_t>(chunk.stage)];
    if (chunk.layers > 0) text += fmt::format("{}{}-{}", text.empty() ? "" : ",", first, first + chunk.layers - 1);
    first += chunk.layers;
  }
  return texts;
}

std::string share_text(const Stage& stage) {
  const auto [least, most] = std::minmax_element(stage.replicas.begin(), stage.replicas.end(),
                                                 [](const auto& a, const auto& b) { return a.share < b.share; });
  return least->share == most->share ? fmt::format("{}", most->share) : fmt::format("{}-{}", least->share, most->share);
}

// The activity of the stage's GPUs in a step, in proportion. In the rest of the step they wait.
std::string bar(const StagePrediction& stage, int micro_batches, double step_ms) {
  const std::pair<char, double> parts[] = {{'f', micro_batches * stage.comp_fwd},
                                           {'b', micro_batches * stage.comp_bwd},
                                           {'t', micro_batches * (stage.comm_fwd + stage.comm_bwd)},
                                           {'s', stage.sync},
                                           {'o', stage.optim}};
  std::string text;
  double end = 0;
  for (const auto& [letter, ms] : parts) {
    end += ms;
    const auto until = std::min<std::size_t>(kBar, static_cast<std::size_t>(std::lround(kBar * end / step_ms)));
    if (until > text.size()) text.append(until - text.size(), letter);
  }
  text.append(kBar - text.size(), '.');
  return text;
}

std::string heading(const PlannedCount& planned) {
  const Plan& plan = *planned.plan;
  std::string text = fmt::format("{}, {} of {}, {}{:.4g} s a step", counted(planned.gpus, "GPU"),
                                 counted(plan.micro_batches, "micro-batch", "es"),
                                 counted(plan.micro_batch(), "sample"), planned.measured ? "" : "~", planned.seconds());
  if (const int idle = planned.gpus - plan.gpu_count(); idle > 0)
    text += fmt::format("; {} GPU{} idle", idle, idle == 1 ? " stays" : "s stay");
  return text + (planned.measured ? "\n" : " (assumed)\n");
}

std::string rows(const PlannedCount& planned) {
  const Plan& plan = *planned.plan;
  std::string text = fmt::format("{:>5}  {:<8} {:>7} {:>6}  {:<42}  {:<11} {}\n", "stage", "layers", "dp x tp", "share",
                                 "one step", "memory GB", "GPUs");
  const auto layers = layers_text_by_stage(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const StagePrediction& predicted = planned.prediction.stages[s];
    text += fmt::format("{:>5}  {:<8} {:>7} {:>6}  |{}|  {:<11} {}\n", s, layers[s],
                        fmt::format("{}x{}", stage.replicas.size(), stage.tp), share_text(stage),
                        bar(predicted, plan.micro_batches, planned.prediction.exact_ms),
                        fmt::format("~{:.1f}/{:.1f}", predicted.memory.peak / 1e9, predicted.capacity / 1e9),
                        gpus_text(stage));
  }
  return text;
}

// Times of a micro-batch, then times of a step.
std::string times(const PlannedCount& planned) {
  std::string text = fmt::format("{:>5}  {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "ms", "forward",
                                 "TP in it", "backward", "TP in it", "gradients", "exposed", "optimizer");
  std::string before;
  const auto& stages = planned.prediction.stages;
  const char* mark = planned.measured ? "" : "~";
  for (std::size_t s = 0; s < stages.size();) {
    const auto line = [&](const StagePrediction& stage) {
      std::string figures;
      for (const double ms :
           {stage.time.fwd, stage.comm_fwd, stage.time.bwd, stage.comm_bwd, stage.gradients, stage.sync, stage.optim})
        figures += fmt::format(" {:>10}", ms > 0 ? fmt::format("{}{:.4g}", mark, ms) : "0");
      return figures;
    };
    const std::size_t begin = s;
    const std::string figures = line(stages[s]);
    while (++s < stages.size() && line(stages[s]) == figures) continue;
    text += fmt::format("{:>5} {}\n", s - begin == 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, s - 1),
                        figures);
  }
  return text;
}

}  // namespace

std::string plan_drawing(const PlannedCount& planned) { return heading(planned) + rows(planned) + times(planned); }

std::string drawing_legend(double usable_memory) {
  return fmt::format(
      "one step: f forward, b backward, t tensor-parallel communication, s exposed synchronization of\n"
      "gradients, o optimizer, . waiting. memory: the peak, of the {:.0f}% of a GPU that a plan may fill. ms:\n"
      "forward and backward of one micro-batch; the rest of a step, gradients whole and what is exposed.\n",
      100 * usable_memory);
}

}  // namespace espalier::cli
