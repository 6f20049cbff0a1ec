#include "planner/core/grid/pruned_search.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace espalier {
namespace {

// A stage by the layers that it holds: from, to.
using Layers = std::pair<int, int>;

std::map<Layers, std::set<std::pair<int, int>>> known_stages(const std::vector<GridPlan>& frontier) {
  std::map<Layers, std::set<std::pair<int, int>>> known;  // GPUs and TP degree
  for (const GridPlan& plan : frontier) {
    int from = 0;
    for (const GridStage& stage : plan.stages) {
      known[{from, from + stage.layers}].insert({stage.gpus, stage.tp});
      from += stage.layers;
    }
  }
  return known;
}

// All plans of one partition within the rules.
class Partition {
 public:
  Partition(Evaluator& evaluator, std::span<const Piece> gpus, const std::vector<int>& layers,
            const std::map<Layers, std::set<std::pair<int, int>>>& known, double most, PrunedResult& result)
      : evaluator_(evaluator), gpus_(gpus), layers_(layers), most_(most), result_(result) {
    int from = 0;
    for (const int own : layers) {
      const auto found = known.find({from, from + own});
      from += own;
      std::vector<std::pair<int, int>>& ways = ways_.emplace_back();
      if (found != known.end()) ways.assign(found->second.begin(), found->second.end());
      else
        for (int n = 1; n <= count_gpus(gpus); n *= 2)
          for (const int tp : evaluator.tp_degrees())
            if (tp <= n) ways.push_back({n, tp});
    }
    plan_.stages.resize(layers.size());
  }
  void search() { choose(0, count_gpus(gpus_)); }

 private:
  void choose(std::size_t stage, int left) {
    if (result_.plans >= most_) return;
    const int after = static_cast<int>(layers_.size() - stage) - 1;  // stages that follow; each has a GPU or more
    for (const auto& [gpus, tp] : ways_[stage]) {
      if (gpus > left - after || (after == 0 && gpus != left)) continue;
      plan_.stages[stage] = {layers_[stage], gpus, tp};
      if (after > 0) {
        choose(stage + 1, left - gpus);
        continue;
      }
      result_.plans += 1;
      auto solution = grid_solution(evaluator_, plan_, gpus_);
      if (solution && solution->ms < result_.best.ms) result_.best = std::move(*solution);
    }
  }

  Evaluator& evaluator_;
  const std::span<const Piece> gpus_;
  const std::vector<int>& layers_;
  const double most_;
  PrunedResult& result_;
  std::vector<std::vector<std::pair<int, int>>> ways_;  // by stage
  GridPlan plan_;
};

}  // namespace

PrunedResult pruned_search(Evaluator& evaluator, std::span<const Piece> gpus, const Proxy& proxy, double most) {
  PrunedResult result{proxy.solution, 0};
  double imbalance = 0;
  for (const GridPlan& plan : proxy.frontier) imbalance = std::max(imbalance, plan.imbalance);
  const auto known = known_stages(proxy.frontier);
  const JobCoefficients& job = evaluator.problem().job;
  const int count = count_gpus(gpus);
  for (const auto& layers : layer_partitions(job.layers, proxy.stages)) {
    const auto wanted = wanted_gpus(job, layers, count);
    const auto nearest = nearest_powers(wanted, count);
    if (nearest.empty() || imbalance_of(wanted, nearest) > imbalance + 1e-9) continue;
    Partition(evaluator, gpus, layers, known, most, result).search();
  }
  return result;
}

double full_search_plans(const Evaluator& evaluator, int gpus) {
  double all = 0;
  const int layers = evaluator.problem().job.layers;
  const auto width = static_cast<std::size_t>(gpus) + 1;
  for (int stages = 1; stages <= gpus && stages <= layers; stages *= 2) {
    // ways[g]: assignments and degrees of the stages so far with g GPUs in all.
    std::vector<double> ways(width, 0.0);
    ways[0] = 1;
    for (int s = 0; s < stages; ++s) {
      std::vector<double> next(width, 0.0);
      for (std::size_t g = 0; g < width; ++g)
        for (std::size_t n = 1; g + n < width; n *= 2) {
          const auto degrees = std::count_if(evaluator.tp_degrees().begin(), evaluator.tp_degrees().end(),
                                             [n](int tp) { return static_cast<std::size_t>(tp) <= n; });
          next[g + n] += ways[g] * static_cast<double>(degrees);
        }
      ways = std::move(next);
    }
    all += ways[width - 1] * static_cast<double>(layer_partitions(layers, stages).size());
  }
  return all;
}

}  // namespace espalier
