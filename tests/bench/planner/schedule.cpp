// `espalier-bench schedule`: how close the search for schedules comes to the fastest one.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/placement.hpp"
#include "planner/core/pipeline/time_bound.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/exact_schedule.hpp"
#include "tests/bench/planner/schedule_instances.hpp"
#include "tests/bench/planner/schedule_placements.hpp"
#include "tests/bench/planner/stopwatch.hpp"

namespace espalier::bench {
namespace {

constexpr std::size_t kMostStates = 2'000'000;

struct Options {
  int instances = 300;
  std::uint64_t seed = 1;
  bool json = false;
};

pipeline::Found timed_search(const pipeline::SearchProblem& problem, double& ms) {
  pipeline::SearchOptions options;
  options.work = pipeline::usual_work(problem);
  const Stopwatch watch;
  pipeline::Found found = pipeline::search(problem, options);
  ms = watch.cpu_ms();
  return found;
}

// 16 ranks, 64 micro-batches, 4 chunks a rank, half of the memory of 1F1B; F, I and W of a chunk differ by up to a
// third.
pipeline::SearchProblem large_problem(std::uint64_t seed) {
  pipeline::Chance chance(seed);
  pipeline::SearchProblem problem{16, 64, pipeline::looped_placement(16, 4), {}, {}};
  for (std::size_t chunk = 0; chunk < problem.rank_of_chunk.size(); ++chunk) {
    pipeline::ChunkCosts cost;
    for (double* seconds : {&cost.forward, &cost.backward_input, &cost.backward_weight})
      *seconds = 0.8 + 0.4 * chance.unit();
    cost.backward = cost.backward_input + cost.backward_weight;
    cost.send_forward = cost.send_backward = 0.1;
    problem.costs.push_back(cost);
  }
  problem.memory.assign(16, 4.0 * 16 / 2);
  return problem;
}

void run(const Options& options) {
  pipeline::Chance chance(options.seed);
  double sum = 0, least = 1, least_generator = 1e9, slowest_ms = 0;
  int compared = 0, optimal = 0, with_generator = 0, unproven = 0;
  for (int i = 0; i < options.instances; ++i) {
    const pipeline::SearchProblem problem = schedule_instance(chance);
    double ms = 0;
    const pipeline::Found found = timed_search(problem, ms);
    if (!found.found())
      throw Error("instance " + std::to_string(i) + ": the search found nothing, though one micro-batch fits");
    slowest_ms = std::max(slowest_ms, ms);
    if (!found.best_generator.empty()) {
      ++with_generator;
      least_generator = std::min(least_generator, found.generator_time / found.time);
    }
    const ExactTime exact = exact_time(problem, found.time, kMostStates);
    if (!exact.proven) {
      ++unproven;
      continue;
    }
    const double share = exact.time ? *exact.time / found.time : 1;
    ++compared;
    if (!exact.time) ++optimal;
    sum += share;
    least = std::min(least, share);
  }
  if (compared == 0) throw Error("no optimum was proven; use more instances");
  double large_ms = 0;
  const pipeline::SearchProblem large = large_problem(options.seed);
  const pipeline::Found found = timed_search(large, large_ms);
  const PlacementFigures placed = compare_placements(options.instances, options.seed);
  const nlohmann::ordered_json json{
      {"instances", options.instances},
      {"proven", compared},
      {"unproven", unproven},
      {"optimum_mean", sum / compared},
      {"optimum_min", least},
      {"optimal", optimal},
      {"with_generator", with_generator},
      {"best_generator_min", least_generator},
      {"search_ms_max", slowest_ms},
      {"large_search_ms", large_ms},
      {"large_bound_share", pipeline::time_bound(large) / found.time},
      {"large_over_generator", found.best_generator.empty() ? 0 : found.generator_time / found.time},
      {"placements_compared", placed.compared},
      {"placements_changed", placed.changed},
      {"placement_gain_mean", placed.gain_mean},
      {"placement_gain_changed", placed.gain_changed},
      {"placement_gain_max", placed.gain_most},
      {"placement_over_best_mean", placed.best_mean},
      {"placement_named_slower_max", placed.slower_most},
      {"placement_ms_mean", placed.ms_mean},
      {"placement_ms_max", placed.ms_most}};
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  else
    for (const auto& [name, value] : json.items()) std::printf("%-20s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_schedule(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("schedule",
                         "Time of the fastest pipeline schedule over that of the searched one, on "
                         "random small problems with uneven times and tight "
                         "memory; time of the best known schedule that fits over the searched one's; "
                         "CPU time of the search, also for 16 ranks, 64 "
                         "micro-batches and 4 chunks a rank. And what pipelines gain whose chunks are placed by "
                         "what the search reaches, not by the known schedules.");
  command->add_option("--instances", options->instances, "how many")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the instances")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
