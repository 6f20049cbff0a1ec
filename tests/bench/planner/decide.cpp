// Measures how long decisions take on a busy cluster, and how much gain lazy rounds lose against
// solving every job in every round.
#include <sys/resource.h>

#include <ctime>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "tests/bench/planner/busy_cluster.hpp"
#include "tests/bench/planner/commands.hpp"

namespace espalier::bench {
namespace {

struct Options {
  int gpus = 1024, decisions = 2000, eager_every = 20;
  unsigned seed = 1;
  bool json = false, as_printed = false;
};

struct Result {
  std::vector<double> ms, cpu_ms;  // wall clock; CPU time of this process alone
  double gain = 0, eager_gain = 0;
  double load = 0;
  std::size_t releases = 0, compared = 0, grown = 0, shrunk = 0, replanned = 0, jobs = 0, idle = 0;
};

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

SchedulerOptions scheduler_options(const Options& options, bool eager) {
  SchedulerOptions result;
  result.as_printed = options.as_printed;
  result.eager = eager;
  result.cooldown_seconds = 0;
  return result;
}

void decide_once(const Options& options, BusyCluster& cluster, Scheduler& scheduler, Result& result) {
  const double cpu_begin = cpu_ms();
  const auto begin = std::chrono::steady_clock::now();
  const auto decisions = scheduler.decide(cluster.input());
  const auto end = std::chrono::steady_clock::now();
  result.cpu_ms.push_back(cpu_ms() - cpu_begin);
  result.ms.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
  const bool released = cluster.input().trigger == Trigger::gpus_released;
  result.releases += released;
  if (released && options.eager_every > 0 && result.releases % static_cast<std::size_t>(options.eager_every) == 0) {
    const auto eager = make_suika_scheduler(scheduler_options(options, true));
    result.eager_gain += total_gain(cluster.input(), eager->decide(cluster.input()));
    result.gain += total_gain(cluster.input(), decisions);
    ++result.compared;
  }
  for (const Decision& d : decisions) {
    result.grown += d.kind == DecisionKind::grow;
    result.shrunk += d.kind == DecisionKind::shrink;
    result.replanned += d.kind == DecisionKind::migrate;
  }
  result.jobs += static_cast<std::size_t>(cluster.busy_jobs());
  for (const NodeView& node : cluster.input().cluster.nodes) result.idle += static_cast<std::size_t>(node.idle_gpus());
  result.load += cluster.load();
  cluster.apply(decisions);
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void run(const Options& options) {
  BusyCluster cluster(options.gpus, options.seed);
  const auto scheduler = make_suika_scheduler(scheduler_options(options, false));
  Result result;
  const auto wanted = static_cast<std::size_t>(options.decisions);
  while (result.ms.size() < wanted) {
    cluster.end_one();
    decide_once(options, cluster, *scheduler, result);
    while (result.ms.size() < wanted && cluster.submit_one()) {
      decide_once(options, cluster, *scheduler, result);
      if (!cluster.start_waiting()) break;
    }
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto count = static_cast<double>(result.ms.size());
  const nlohmann::json json{
      {"p50_ms", percentile(result.ms, 0.5)},
      {"p90_ms", percentile(result.ms, 0.9)},
      {"p99_ms", percentile(result.ms, 0.99)},
      {"max_ms", percentile(result.ms, 1)},
      {"cpu_p50_ms", percentile(result.cpu_ms, 0.5)},
      {"cpu_p90_ms", percentile(result.cpu_ms, 0.9)},
      {"cpu_p99_ms", percentile(result.cpu_ms, 0.99)},
      {"gain_ratio_to_eager", result.eager_gain > 0 ? result.gain / result.eager_gain : 1},
      {"compared_with_eager", result.compared},
      {"mean_eager_gain_gpus", result.compared > 0 ? result.eager_gain / static_cast<double>(result.compared) : 0},
      {"decisions", result.ms.size()},
      {"gpus", options.gpus},
      {"mean_basic_load", result.load / count},
      {"mean_jobs", static_cast<double>(result.jobs) / count},
      {"mean_idle_gpus", static_cast<double>(result.idle) / count},
      {"grown", result.grown},
      {"shrunk", result.shrunk},
      {"replanned", result.replanned},
      {"rss_mib", static_cast<double>(usage.ru_maxrss) / 1024}};
  if (options.json) {
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  for (const auto& [name, value] : json.items()) std::printf("%-22s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_decide(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("decide", "latency of decisions on a busy cluster of the paper's jobs");
  command->add_option("--gpus", options->gpus, "size of the cluster")->check(CLI::Range(64, 1 << 20));
  command->add_option("--decisions", options->decisions, "how many to take")->check(CLI::PositiveNumber);
  command->add_option("--seed", options->seed, "of the jobs' comings and goings");
  command->add_option("--eager-every", options->eager_every,
                      "compare the decision on every Nth release with solving every job in every round; 0: never");
  command->add_flag("--as-printed", options->as_printed, "Algorithm 1 as printed, without the planner's own search");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
