// `espalier-bench decide`: the latency of decisions.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/decisions.hpp"

namespace espalier::bench {
namespace {

struct Options {
  DecisionRun run;
  bool json = false;
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void run(const Options& options) {
  const DecisionFigures figures = measure_decisions(options.run);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto count = static_cast<double>(figures.ms.size());
  const auto mean = [&](auto sum) { return static_cast<double>(sum) / count; };
  const nlohmann::json json{
      {"p50_ms", percentile(figures.ms, 0.5)},
      {"p90_ms", percentile(figures.ms, 0.9)},
      {"p99_ms", percentile(figures.ms, 0.99)},
      {"max_ms", percentile(figures.ms, 1)},
      {"cold_start_ms", percentile(figures.cold_start_ms, 1)},
      {"cpu_p50_ms", percentile(figures.cpu_ms, 0.5)},
      {"cpu_p90_ms", percentile(figures.cpu_ms, 0.9)},
      {"cpu_p99_ms", percentile(figures.cpu_ms, 0.99)},
      {"gain_ratio_to_eager", figures.eager_gain > 0 ? figures.gain / figures.eager_gain : 1},
      {"compared_with_eager", figures.compared},
      {"mean_eager_gain_gpus", figures.compared > 0 ? figures.eager_gain / static_cast<double>(figures.compared) : 0},
      {"decisions", figures.ms.size()},
      {"gpus", options.run.cluster.gpus},
      {"types", options.run.cluster.types},
      {"movable", options.run.cluster.movable},
      {"mean_basic_load", mean(figures.load)},
      {"mean_jobs", mean(figures.jobs)},
      {"mean_waiting", mean(figures.waiting)},
      {"mean_idle_gpus", mean(figures.idle)},
      {"grown", figures.grown},
      {"shrunk", figures.shrunk},
      {"replanned", figures.replanned},
      {"moved", figures.moved},
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
  BusyOptions& cluster = options->run.cluster;
  CLI::App* command = app.add_subcommand("decide", "latency of decisions on a busy cluster of the paper's jobs");
  command->footer(
      "A decision is timed from Slurm's snapshot and the launchers' reports to the moves of bases and the scheduler's\n"
      "changes, as espalierd takes it. cold_start_ms: the longest first decision of a planner that has just started, "
      "for\n"
      "which the whole cluster is new. moved: moves of bases for waiting jobs.\n"
      "Measured with --types 4 --movable 0.5, seeds 1-3, 2026-11-25, 2 cores of an AMD EPYC (virtual), shared:\n"
      "1,280 GPUs P99 100-145 ms, cold start at most 0.22 s; 16,384 GPUs 710-855 ms and 1.1 s "
      "(tests/bench/RESULTS.md).");
  command->add_option("--gpus", cluster.gpus, "size of the cluster")->check(CLI::Range(64, 1 << 20));
  command->add_option(
      "--types", cluster.types,
      "GPU types, each with nodes of its own; 1: H100, more: A100, A40, A10, V100, H100, L20 in this order, "
      "as in the presets cluster-arena and cluster-arena-b");
  command->add_option("--movable", cluster.movable, "share of the jobs whose bases can move, from 0 to 1");
  command->add_option("--decisions", options->run.decisions, "how many to take")->check(CLI::PositiveNumber);
  command->add_option("--seed", cluster.seed, "of the jobs' comings and goings");
  command->add_option("--eager-every", options->run.eager_every,
                      "compare the decision on every Nth release with solving every job in every round; 0: never");
  command->add_flag("--as-printed", options->run.as_printed,
                    "Algorithm 1 as printed, without the planner's own search");
  command->add_flag("--arena", options->run.arena, "policy arena, without its moves to other types");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
