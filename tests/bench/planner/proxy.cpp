#include "tests/bench/planner/proxy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/grid/pruned_search.hpp"
#include "planner/core/solver/best_plan.hpp"
#include "planner/core/solver/pareto.hpp"
#include "tests/bench/planner/commands.hpp"

namespace espalier::bench {
namespace {

constexpr long kExactLabels = 100'000'000;

struct Options {
  int instances = 200;
  std::uint64_t seed = 1;
  bool json = false;
};

double optimum(const Instance& instance, int stages) {
  PlanBounds bounds = instance.bounds;
  bounds.fixed_pp = stages;
  Evaluator evaluator({instance.hardware, instance.topology, instance.job, bounds});
  const ParetoResult best = pareto_search(evaluator, instance.all(), {kExactLabels, 1, false, {}});
  if (!best.complete) throw Error("exact search: gave up; use fewer GPUs or layers");
  return best.best ? best.best->ms : kInfeasible;
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double least(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

void run(const Options& options) {
  std::vector<double> proxy, own, pruned_loss, by_grid;
  double ratios = 0;
  int without = 0;
  for (int i = 0; i < options.instances; ++i) {
    const auto seed = options.seed * 1'000'003 + static_cast<std::uint64_t>(i);
    const auto one = measure_proxy(*make_grid_instance(seed));
    if (!one) {
      ++without;
      continue;
    }
    proxy.push_back(one->proxy);
    own.push_back(one->own);
    pruned_loss.push_back(1 - one->pruned);
    by_grid.insert(by_grid.end(), one->by_grid.begin(), one->by_grid.end());
    ratios += std::log(one->full_plans / one->pruned_plans);
  }
  const nlohmann::ordered_json json{
      {"instances", options.instances},
      {"without_proxy", without},
      {"proxy_mean", mean(proxy)},
      {"proxy_min", least(proxy)},
      {"own_mean", mean(own)},
      {"own_min", least(own)},
      {"grids", by_grid.size()},
      {"grid_proxy_mean", mean(by_grid)},
      {"grid_proxy_min", least(by_grid)},
      {"pruned_search_ratio", proxy.empty() ? 0 : std::exp(ratios / static_cast<double>(proxy.size()))},
      {"pruned_search_loss", mean(pruned_loss)}};
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  else
    for (const auto& [name, value] : json.items()) std::printf("%-19s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

std::optional<ProxyQuality> measure_proxy(const Instance& instance) {
  Evaluator evaluator(instance.problem());
  const auto gpus = instance.all();
  const auto proxies = grid_proxies(evaluator, gpus);
  if (proxies.empty()) return std::nullopt;
  const auto best = std::min_element(proxies.begin(), proxies.end(),
                                     [](const Proxy& a, const Proxy& b) { return a.solution.ms < b.solution.ms; });
  const double all = optimum(instance, 0);
  ProxyQuality result;
  result.proxy = all / best->solution.ms;
  for (const Proxy& proxy : proxies) result.by_grid.push_back(optimum(instance, proxy.stages) / proxy.solution.ms);
  const auto own = best_plan(evaluator, gpus, {}, {});
  if (!own) throw Error("the planner's search found no plan where a proxy plan fits");
  result.own = all / own->ms;
  const PrunedResult pruned = pruned_search(evaluator, gpus, *best);
  result.pruned = all / pruned.best.ms;
  result.pruned_plans = std::max(1.0, pruned.plans);
  result.full_plans = full_search_plans(evaluator, count_gpus(gpus));
  return result;
}

void add_proxy(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "proxy",
      "Throughput of Arena's best proxy plan, of the planner's own search and of the search around the proxy plan, "
      "over "
      "that of the best plan, on random jobs and 2 to 16 GPUs of one type. pruned_search_ratio: how many times fewer "
      "plans that search looks at (geometric mean); pruned_search_loss: the throughput that it misses.");
  command->add_option("--instances", options->instances, "how many")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the instances")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
