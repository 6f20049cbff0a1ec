#include "planner/core/grid/grid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/model/memory.hpp"

namespace espalier {
namespace {

// Of neighbouring stages that differ in their degrees (the artifact's penalty of resharding).
constexpr double kReshard = 1.1;

double splits_of(int units, int stages) {
  double count = 1;
  for (int i = 1; i < stages; ++i) count = count * (units - i) / i;
  return count;
}

void split(int units, int stages, std::vector<int>& chosen, std::vector<std::vector<int>>& all) {
  if (stages == 1) {
    chosen.push_back(units);
    all.push_back(chosen);
    chosen.pop_back();
    return;
  }
  for (int first = 1; first <= units - stages + 1; ++first) {
    chosen.push_back(first);
    split(units - first, stages - 1, chosen, all);
    chosen.pop_back();
  }
}

// The allowed N_b that is nearest to the number of stages.
int choice_near(const Evaluator& evaluator, int stages) {
  const auto& counts = evaluator.micro_batch_counts();
  int best = 0;
  for (int c = 0; c < static_cast<int>(counts.size()); ++c)
    if (std::abs(counts[static_cast<std::size_t>(c)] - stages) <
        std::abs(counts[static_cast<std::size_t>(best)] - stages))
      best = c;
  return best;
}

struct StageCost {
  int tp = 0;
  double each = 0, once = 0;  // ms of communication: of a micro-batch; of an iteration, by micro-batch
};

// Chooses degrees stage by stage, the least communication first (§3.3, "intra-stage parallelism").
class GridBuilder {
 public:
  GridBuilder(Evaluator& evaluator, std::span<const Piece> gpus, int stages)
      : evaluator_(evaluator),
        gpus_(gpus),
        count_(count_gpus(gpus)),
        choice_(choice_near(evaluator, stages)),
        micro_batches_(evaluator.micro_batch_counts()[static_cast<std::size_t>(choice_)]) {}

  std::optional<GridPlan> plan(const std::vector<int>& layers) {
    const JobCoefficients& job = evaluator_.problem().job;
    const auto wanted = wanted_gpus(job, layers, count_);
    const auto counts = nearest_powers(wanted, count_);
    if (counts.empty()) return std::nullopt;
    GridPlan plan;
    plan.imbalance = imbalance_of(wanted, counts);
    const auto pieces = stage_pieces(counts, gpus_);
    double slowest = 0, sum = 0;
    std::pair<int, int> before{0, 0};
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const StagePosition at{static_cast<int>(s), static_cast<int>(layers.size()), 0};
      const auto cost = cheapest(pieces[s], counts[s], layers[s], at, before);
      if (!cost) return std::nullopt;
      plan.stages.push_back({layers[s], counts[s], cost->tp});
      before = {counts[s], cost->tp};
      slowest = std::max(slowest, cost->each);
      sum += cost->once;
    }
    plan.communication = std::max(1, micro_batches_ - 1) * (slowest + sum);
    return plan;
  }

 private:
  std::optional<StageCost> cheapest(const std::vector<Piece>& pieces, int gpus, int layers,
                                    const StagePosition& position, std::pair<int, int> before) {
    std::optional<StageCost> best;
    const JobCoefficients& job = evaluator_.problem().job;
    for (const int tp : evaluator_.tp_degrees()) {
      if (gpus % tp != 0) continue;
      const StageShape shape = stage_shape(evaluator_.problem(), pieces, {}, tp);
      if (shape.replicas == 0) continue;
      const StageTable table = evaluator_.table(shape);
      const StageAt* at = at_near(table, layers, position);
      if (at == nullptr) continue;
      const StageLoad load = stage_load(job, layers, position.first(), position.last());
      StageCost cost{tp, layers * (at->rates.fwd + at->rates.bwd - at->rates.comp_fwd - at->rates.comp_bwd),
                     load.gradient_bytes * at->rates.gradient_ms_per_byte / micro_batches_};
      if (before.first > 0 && before != std::pair(gpus, tp)) cost.each *= kReshard, cost.once *= kReshard;
      if (!best || cost.each + cost.once < best->each + best->once) best = cost;
    }
    return best;
  }

  // The stage's times at the N_b nearest to the wished one at which it fits into memory.
  const StageAt* at_near(const StageTable& table, int layers, StagePosition position) {
    const auto& counts = evaluator_.micro_batch_counts();
    const int all = static_cast<int>(counts.size());
    for (int distance = 0; distance < all; ++distance)
      for (const int choice : {choice_ + distance, choice_ - distance}) {
        if (choice < 0 || choice >= all) continue;
        const StageAt& at = evaluator_.at(table, choice);
        position.micro_batches = counts[static_cast<std::size_t>(choice)];
        const Problem& problem = evaluator_.problem();
        if (at.rates.feasible && layers <= layer_cap(problem.hardware, problem.job, table.shape, at.shares, position))
          return &at;
      }
    return nullptr;
  }

  Evaluator& evaluator_;
  const std::span<const Piece> gpus_;
  const int count_, choice_, micro_batches_;
};

bool dominates(const GridPlan& a, const GridPlan& b) {
  return a.imbalance <= b.imbalance && a.communication <= b.communication &&
         (a.imbalance < b.imbalance || a.communication < b.communication);
}

int difference(const GridPlan& a, const GridPlan& b) {
  // Layers that are on another stage: the Hamming distance of the vectors of stages by layer.
  int different = 0;
  std::size_t sa = 0, sb = 0;
  int left_a = a.stages[0].layers, left_b = b.stages[0].layers;
  while (sa < a.stages.size() && sb < b.stages.size()) {
    if (sa != sb) ++different;
    if (--left_a == 0 && ++sa < a.stages.size()) left_a = a.stages[sa].layers;
    if (--left_b == 0 && ++sb < b.stages.size()) left_b = b.stages[sb].layers;
  }
  return different;
}

// Drops the plan with the higher communication load of the pair whose partitions are most alike.
void thin(std::vector<GridPlan>& plans) {
  while (plans.size() > kMostFrontierPlans) {
    std::size_t dropped = 0;
    int least = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < plans.size(); ++i)
      for (std::size_t j = i + 1; j < plans.size(); ++j)
        if (const int d = difference(plans[i], plans[j]); d < least) {
          least = d;
          dropped = plans[i].communication > plans[j].communication ? i : j;
        }
    plans.erase(plans.begin() + static_cast<std::ptrdiff_t>(dropped));
  }
}

}  // namespace

std::vector<std::vector<int>> layer_partitions(int layers, int stages) {
  std::vector<std::vector<int>> all;
  if (stages < 1 || stages > layers) return all;
  int units = layers;
  while (units > stages && splits_of(units, stages) > kMostPartitions) --units;
  std::vector<int> chosen;
  split(units, stages, chosen, all);
  if (units == layers) return all;
  // Unit u holds the layers from u * layers / units on.
  for (auto& runs : all) {
    int unit = 0;
    for (int& run : runs) {
      const int from = unit * layers / units;
      unit += run;
      run = unit * layers / units - from;
    }
  }
  return all;
}

std::vector<double> wanted_gpus(const JobCoefficients& job, std::span<const int> layers, int gpus) {
  std::vector<double> loads;
  double sum = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    loads.push_back(stage_load(job, layers[s], s == 0, s + 1 == layers.size()).compute_layers);
    sum += loads.back();
  }
  for (double& load : loads) load *= gpus / sum;
  return loads;
}

std::vector<int> nearest_powers(std::span<const double> wanted, int gpus) {
  const std::size_t stages = wanted.size(), width = static_cast<std::size_t>(gpus) + 1;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // least[s][g]: squared distance of the first s stages with g GPUs in all.
  std::vector<std::vector<double>> least(stages + 1, std::vector<double>(width, kNone));
  std::vector<std::vector<int>> taken(stages + 1, std::vector<int>(width, 0));
  least[0][0] = 0;
  for (std::size_t s = 0; s < stages; ++s)
    for (std::size_t g = 0; g < width; ++g) {
      if (least[s][g] == kNone) continue;
      for (std::size_t n = 1; g + n < width; n *= 2) {
        const double off = wanted[s] - static_cast<double>(n), next = least[s][g] + off * off;
        if (next < least[s + 1][g + n]) least[s + 1][g + n] = next, taken[s + 1][g + n] = static_cast<int>(n);
      }
    }
  if (least[stages][width - 1] == kNone) return {};
  std::vector<int> counts(stages);
  for (std::size_t s = stages, g = width - 1; s > 0; --s) {
    counts[s - 1] = taken[s][g];
    g -= static_cast<std::size_t>(taken[s][g]);
  }
  return counts;
}

double imbalance_of(std::span<const double> wanted, std::span<const int> gpus) {
  double sum = 0;
  for (std::size_t s = 0; s < wanted.size(); ++s) sum += (wanted[s] - gpus[s]) * (wanted[s] - gpus[s]);
  return std::sqrt(sum);
}

std::vector<GridPlan> grid_frontier(Evaluator& evaluator, std::span<const Piece> gpus, int stages) {
  const int count = count_gpus(gpus);
  std::vector<GridPlan> plans;
  if (stages > count || stages > kMaxStages) return plans;
  GridBuilder builder(evaluator, gpus, stages);
  const JobCoefficients& job = evaluator.problem().job;
  const auto partitions = layer_partitions(job.layers, stages);
  const double least = kLeastStageShare * count / stages;
  for (const bool strict : {true, false}) {
    for (const auto& layers : partitions) {
      const auto wanted = wanted_gpus(job, layers, count);
      const bool proportional = *std::min_element(wanted.begin(), wanted.end()) >= least;
      if (proportional != strict) continue;
      if (auto plan = builder.plan(layers)) plans.push_back(std::move(*plan));
    }
    std::stable_sort(plans.begin(), plans.end(), [](const GridPlan& a, const GridPlan& b) {
      return std::pair(a.imbalance, a.communication) < std::pair(b.imbalance, b.communication);
    });
    std::vector<GridPlan> frontier;
    for (GridPlan& plan : plans)
      if (std::none_of(frontier.begin(), frontier.end(), [&](const GridPlan& one) { return dominates(one, plan); }) &&
          grid_solution(evaluator, plan, gpus))
        frontier.push_back(std::move(plan));
    plans = std::move(frontier);
    // Without any, partitions in which a stage has little to do are looked at too: a model may have fewer layers.
    if (!plans.empty()) break;
  }
  thin(plans);
  return plans;
}

std::vector<Proxy> grid_proxies(Evaluator& evaluator, std::span<const Piece> gpus) {
  std::vector<Proxy> proxies;
  for (int stages = 1; stages <= count_gpus(gpus) && stages <= evaluator.problem().job.layers; stages *= 2) {
    auto frontier = grid_frontier(evaluator, gpus, stages);
    if (frontier.empty()) continue;
    auto solution = grid_solution(evaluator, frontier.front(), gpus);
    proxies.push_back({stages, std::move(*solution), std::move(frontier)});
  }
  return proxies;
}

std::optional<Proxy> best_proxy(Evaluator& evaluator, std::span<const Piece> gpus) {
  std::optional<Proxy> best;
  for (Proxy& proxy : grid_proxies(evaluator, gpus))
    if (!best || proxy.solution.ms < best->solution.ms) best = std::move(proxy);
  return best;
}

}  // namespace espalier
