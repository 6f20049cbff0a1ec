#include "planner/daemon/growth_regret.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "planner/core/hostlist.hpp"

namespace espalier {
namespace {

// The launcher's step time is a moving average, in which the first step of a generation counts for some percent after
// ten steps. By then only a growth that is far off is judged.
constexpr std::int64_t kFewSteps = 10;
constexpr double kFar = 6;
constexpr int kMostTold = 4;  // slow nodes in a reason

std::set<std::pair<std::string, int>> held_without(const ElasticJob& job, const std::vector<JobId>& extensions) {
  std::set<std::pair<std::string, int>> gpus;
  const auto add = [&](const Holding& held) {
    for (const int gpu : held.gpus) gpus.emplace(held.node, gpu);
  };
  for (const Holding& held : job.anchor) add(held);
  for (const Holding& held : job.extensions)
    if (!std::binary_search(extensions.begin(), extensions.end(), held.job)) add(held);
  return gpus;
}

std::string seconds(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g s", value);
  return text;
}

}  // namespace

std::optional<BeforeGrowth> before_growth(const ElasticJob& job, std::int64_t decision) {
  if (!job.plan || !(job.step_seconds > 0)) return std::nullopt;
  BeforeGrowth before{decision, *job.plan, job.step_seconds, {}};
  for (const Holding& held : job.extensions) before.extensions.push_back(held.job);
  std::sort(before.extensions.begin(), before.extensions.end());
  before.extensions.erase(std::unique(before.extensions.begin(), before.extensions.end()), before.extensions.end());
  return before;
}

std::optional<Decision> taken_back(const BeforeGrowth& before, const ElasticJob& now, std::int64_t steps,
                                   const std::map<std::string, double>& slow, double percent) {
  const double allowed = 1 + (steps < kStepsToCompare ? kFar : 1) * percent / 100;
  if (percent <= 0 || steps < kFewSteps || !(now.step_seconds > allowed * before.step_seconds)) return std::nullopt;
  Decision back;
  for (const Holding& held : now.extensions)
    if (!std::binary_search(before.extensions.begin(), before.extensions.end(), held.job))
      back.release.push_back(held.job);
  std::sort(back.release.begin(), back.release.end());
  back.release.erase(std::unique(back.release.begin(), back.release.end()), back.release.end());
  if (back.release.empty()) return std::nullopt;
  const auto kept = held_without(now, back.release);
  for (const GpuId& gpu : before.plan.ranks())
    if (!kept.contains({gpu.node, gpu.index})) return std::nullopt;
  back.kind = DecisionKind::shrink;
  back.trigger = Trigger::profile_ready;
  back.job = now.id;
  back.plan = before.plan;
  back.predicted_step_seconds = before.step_seconds;
  const auto nodes = nodes_left(now, back);
  back.reason = "steps take " + seconds(now.step_seconds) + " since decision " + std::to_string(before.decision) +
                ", and took " + seconds(before.step_seconds) + " before it: its GPUs on " + fold_hosts(nodes) +
                " are given back";
  int told = 0;
  for (const auto& [node, share] : slow) {
    if (++told > kMostTold) break;
    back.reason += "; " + node + " computes at " + std::to_string(std::lround(100 * share)) + "% of its like";
  }
  return back;
}

bool replans(const Decision& decision) {
  return decision.kind == DecisionKind::migrate && decision.acquire.empty() && decision.release.empty();
}

std::vector<std::string> nodes_left(const ElasticJob& job, const Decision& decision) {
  std::set<std::string> nodes;
  for (const Holding& held : job.extensions)
    if (std::binary_search(decision.release.begin(), decision.release.end(), held.job)) nodes.insert(held.node);
  return {nodes.begin(), nodes.end()};
}

}  // namespace espalier
