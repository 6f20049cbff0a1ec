// Measured iteration times of one model, by GPU type, number of GPUs and how they stand on nodes.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::sim {

class SpeedTable {
 public:
  // Seconds of an iteration on `gpus` GPUs of type `type`, `per_node` of them on each node.
  // `fastest`: on the best plan that a search found. `data_parallel`: on replicas of the whole model;
  // 0: they do not fit.
  void add(int type, int gpus, int per_node, double fastest, double data_parallel);

  // 0: the job cannot run there. `per_node`: the most GPUs on a node. A spread that was not measured
  // is taken to cost 10% of the throughput for each halving of `per_node` (as Arena's released
  // scheduler has it).
  double seconds(int type, int gpus, int per_node) const;
  // The least over all measured spreads. 0: the job cannot run there.
  double fastest(int type, int gpus) const;
  // What a scheduler sees that takes jobs for data-parallel (Arena §2.2). 0: replicas do not fit.
  double data_parallel(int type, int gpus) const;
  // Whether replicas fit on some number of GPUs of some type.
  bool has_data_parallel() const;
  // Numbers of GPUs with a time on this type, ascending.
  std::vector<int> counts(int type) const;
  // Of the plan's GPUs. nullopt: they are not of one type, or the job cannot run on them.
  std::optional<double> seconds(const Site& site, const Plan& plan) const;

 private:
  struct Point {
    int per_node = 0;
    double fastest = 0, data_parallel = 0;
  };
  // By type and GPUs; the points by per_node, descending.
  std::map<std::pair<int, int>, std::vector<Point>> points_;
};

}  // namespace espalier::sim
