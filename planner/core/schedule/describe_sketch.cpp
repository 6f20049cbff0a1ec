#include "planner/core/schedule/describe_sketch.hpp"

#include <algorithm>

namespace espalier {
namespace {

std::string range(int low, int high) {
  return low == high ? std::to_string(low) : std::to_string(low) + "-" + std::to_string(high);
}

}  // namespace

std::string describe_sketch(const PlanSketch& sketch, const Topology& topology) {
  if (sketch.stages.empty()) return "(none)";
  int least_tp = 1 << 30, most_tp = 0, least_dp = 1 << 30, most_dp = 0;
  std::string layers;
  std::vector<Piece> all;
  for (const StageSketch& stage : sketch.stages) {
    const int dp = stage.gpus() / stage.tp;
    least_tp = std::min(least_tp, stage.tp), most_tp = std::max(most_tp, stage.tp);
    least_dp = std::min(least_dp, dp), most_dp = std::max(most_dp, dp);
    layers += (layers.empty() ? "" : "+") + std::to_string(stage.layers);
    all = merge_pieces(all, stage.pieces);
  }
  std::string text = "pp" + std::to_string(sketch.stages.size()) + " dp" + range(least_dp, most_dp) + " tp" +
                     range(least_tp, most_tp) + (sketch.form.plain() ? "" : " " + sketch.form.schedule()) + " | " +
                     layers + " layers |";
  for (std::size_t i = 0; i < all.size();) {
    const int node = all[i].node;
    int gpus = 0;
    for (; i < all.size() && all[i].node == node; ++i) gpus += all[i].gpus;
    text += " " + topology.name(node) + ":" + std::to_string(gpus);
  }
  return text;
}

}  // namespace espalier
