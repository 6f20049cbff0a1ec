#include "tests/bench/planner/optimality.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/solver/pareto.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/incremental_plan.hpp"
#include "tests/bench/planner/stopwatch.hpp"

namespace espalier::bench {
namespace {

constexpr long kExactLabels = 100'000'000;

struct Options {
  int instances = 500;
  std::uint64_t seed = 1;
  std::string effort = "bench";
  bool json = false;
};

std::vector<double> sorted(const std::vector<Optimality>& rows, double Optimality::*figure) {
  std::vector<double> values;
  for (const Optimality& row : rows) values.push_back(row.*figure);
  std::sort(values.begin(), values.end());
  return values;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(const std::vector<double>& sorted_values, double share) {
  return sorted_values[static_cast<std::size_t>(share * static_cast<double>(sorted_values.size() - 1))];
}

void run(const Options& options) {
  std::vector<Optimality> rows;
  const Effort effort = options.effort == "daemon" ? Effort::daemon : Effort::bench;
  for (int i = 0; i < options.instances; ++i) {
    const auto seed = options.seed * 1'000'003 + static_cast<std::uint64_t>(i);
    rows.push_back(measure_optimality(*make_instance(seed, i % 2 == 0 ? Start::best : Start::random), effort));
  }
  const auto planner = sorted(rows, &Optimality::planner), algorithm1 = sorted(rows, &Optimality::algorithm1);
  const auto planner_ms = sorted(rows, &Optimality::planner_ms), optimum_ms = sorted(rows, &Optimality::optimum_ms);
  const nlohmann::ordered_json json{{"instances", rows.size()},
                                    {"effort", options.effort},
                                    {"mean", mean(planner)},
                                    {"min", planner.front()},
                                    {"p5", quantile(planner, 0.05)},
                                    {"algorithm1_mean", mean(algorithm1)},
                                    {"algorithm1_min", algorithm1.front()},
                                    {"planner_cpu_ms_p50", quantile(planner_ms, 0.5)},
                                    {"planner_cpu_ms_max", planner_ms.back()},
                                    {"optimum_cpu_ms_p50", quantile(optimum_ms, 0.5)},
                                    {"optimum_cpu_ms_max", optimum_ms.back()}};
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  else
    for (const auto& [name, value] : json.items()) std::printf("%-19s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

Optimality measure_optimality(const Instance& instance, Effort effort) {
  Evaluator evaluator(instance.problem());
  Optimality result;
  const Stopwatch exact;
  const ParetoResult optimum = pareto_search(evaluator, instance.all(), {kExactLabels, 1, false, {}});
  result.optimum_ms = exact.cpu_ms();
  if (!optimum.complete || !optimum.best) throw Error("exact search: gave up; use fewer GPUs or layers");
  const Stopwatch planning;
  const Solution plan = incremental_plan(evaluator, instance.present, instance.held, instance.units, effort);
  result.planner_ms = planning.cpu_ms();
  result.planner = optimum.best->ms / plan.ms;
  result.algorithm1 = optimum.best->ms / printed_algorithm1(evaluator, instance.present, instance.units);
  return result;
}

void add_optimality(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "optimality",
      "Throughput of the planner's plans, and of those of Algorithm 1 as printed, over that of the best plan, on "
      "random "
      "jobs of at most 8 GPUs that are offered at most 8. Half of them run their best plan, half a random one.");
  command->add_option("--instances", options->instances, "how many")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the instances")->capture_default_str();
  command
      ->add_option("--effort", options->effort, "bench: the whole search; daemon: what a decision of espalierd spends")
      ->check(CLI::IsMember({"bench", "daemon"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
