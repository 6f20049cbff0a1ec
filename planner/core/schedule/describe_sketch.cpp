#include "planner/core/schedule/describe_sketch.hpp"

#include <algorithm>
#include <map>
#include <utility>

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
  // By node: its islands, then what is in none.
  std::map<int, std::map<std::pair<bool, int>, int>> gpus;
  for (const Piece& piece : all) {
    const int whole = topology.whole(piece.node);
    gpus[whole][{piece.node == whole, piece.node}] += piece.gpus;
  }
  for (const auto& [node, islands] : gpus) {
    text += " " + topology.name(node);
    char before = ':';
    for (const auto& [island, count] : islands) text += std::exchange(before, '+') + std::to_string(count);
  }
  return text;
}

}  // namespace espalier
