#include "tests/bench/planner/transfer_bound.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace espalier::bench {
namespace {

using namespace torchrt;

using Tensor = std::tuple<std::string, bool>;  // Hugging Face's name; true: optimizer state
using Holdings = std::map<std::string, std::map<Tensor, std::vector<Rectangle>>>;  // by node

std::int64_t covered(const std::vector<Rectangle>& rectangles) {
  std::vector<std::int64_t> edges;
  for (const Rectangle& one : rectangles) edges.insert(edges.end(), {one.rows.first, one.rows.end()});
  std::sort(edges.begin(), edges.end());
  std::int64_t area = 0;
  for (std::size_t e = 0; e + 1 < edges.size(); ++e) {
    if (edges[e] == edges[e + 1]) continue;
    std::vector<Range> columns;
    for (const Rectangle& one : rectangles)
      if (one.rows.first <= edges[e] && edges[e + 1] <= one.rows.end()) columns.push_back(one.columns);
    std::sort(columns.begin(), columns.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
    std::int64_t reached = 0;
    for (const Range& range : columns) {
      const std::int64_t begin = std::max(range.first, reached);
      if (begin >= range.end()) continue;
      area += (range.end() - begin) * (edges[e + 1] - edges[e]);
      reached = range.end();
    }
  }
  return area;
}

Holdings holdings(const ModelConfig& model, DataType dtype, const Plan& plan, bool zero1,
                  const std::vector<int>& lost) {
  const Layout layout = make_layout(plan, model.layers);
  const std::vector<GpuId> gpus = plan.ranks();
  Holdings result;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    auto& node = result[gpus[r].node];
    if (std::find(lost.begin(), lost.end(), static_cast<int>(r)) != lost.end()) continue;
    const RankLayout& rank = layout.ranks[r];
    for (const int unit : rank.units) {
      const UnitSpec spec = unit_spec(model, unit, rank.tp, rank.tp_rank);
      const StateLayout state = state_layout(spec, dtype, zero1 ? rank.replicas : 1, zero1 ? rank.replica : 0);
      for (const TensorSpec& tensor : spec.tensors)
        for (const bool optimizer : {false, true}) {
          const Range held = optimizer ? state.shard : Range{0, static_cast<std::int64_t>(state.floats)};
          auto& rectangles = node[{tensor.hugging_face, optimizer}];
          for (const Rectangle& one : regions(tensor, held)) rectangles.push_back(one);
        }
    }
  }
  return result;
}

}  // namespace

std::int64_t least_bytes_between_nodes(const ModelConfig& model, const TransferRequest& request) {
  const Holdings before = holdings(model, request.dtype, request.before, request.zero1_before, request.lost);
  const Holdings after = holdings(model, request.dtype, request.after, request.zero1_after, {});
  const std::int64_t parameter = static_cast<std::int64_t>(size_of(request.dtype));
  const std::int64_t optimizer = request.dtype == DataType::bfloat16 ? 12 : 8;  // (master,) m and v
  std::int64_t bytes = 0;
  for (const auto& [node, tensors] : after) {
    const auto there = before.find(node);
    for (const auto& [tensor, needed] : tensors) {
      std::vector<Rectangle> held;
      if (there != before.end() && there->second.count(tensor) != 0) held = there->second.at(tensor);
      const std::int64_t own = covered(held);
      held.insert(held.end(), needed.begin(), needed.end());
      bytes += (covered(held) - own) * (std::get<1>(tensor) ? optimizer : parameter);
    }
  }
  return bytes;
}

}  // namespace espalier::bench
