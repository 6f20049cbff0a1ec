#include "torchrt/layout.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

Layout make_layout(const Plan& plan, int layers, TpGroups groups) {
  const std::vector<std::string> broken = validate(plan, layers, groups);
  if (!broken.empty()) throw Error("plan: " + broken.front());
  Layout layout;
  layout.micro_batches = plan.micro_batches;
  layout.micro_batch = plan.micro_batch();
  layout.units = layers + 2;
  const std::vector<Chunk> chunks = plan.model_chunks();
  int next_unit = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const int units = chunks[c].layers + (c == 0 ? 1 : 0) + (c + 1 == chunks.size() ? 1 : 0);
    layout.chunks.push_back({chunks[c].stage, next_unit, units});
    next_unit += units;
  }
  ESPALIER_INVARIANT(next_unit == layout.units);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    RankLayout rank;
    rank.stage = static_cast<int>(s);
    rank.replicas = static_cast<int>(stage.replicas.size());
    rank.tp = stage.tp;
    for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
      const ChunkLayout& chunk = layout.chunks[c];
      if (chunk.stage != rank.stage) continue;
      rank.chunks.push_back(static_cast<int>(c));
      for (int i = 0; i < chunk.units; ++i) rank.units.push_back(chunk.first_unit + i);
    }
    rank.has_embedding = rank.units.front() == 0;
    rank.has_head = rank.units.back() == layout.units - 1;
    layout.stages.push_back({static_cast<int>(layout.ranks.size()), rank.replicas, rank.tp});
    for (const Replica& replica : stage.replicas) {
      rank.samples = replica.share;
      for (rank.tp_rank = 0; rank.tp_rank < rank.tp; ++rank.tp_rank) layout.ranks.push_back(rank);
      rank.first_sample += replica.share;
      ++rank.replica;
    }
  }
  return layout;
}

}  // namespace

Layout make_layout(const Plan& plan, int layers) { return make_layout(plan, layers, TpGroups::one_node); }

Layout make_memory_layout(const Plan& plan, int layers) { return make_layout(plan, layers, TpGroups::any); }

int Layout::chunk_of_unit(int unit) const {
  const auto found = std::partition_point(chunks.begin(), chunks.end(),
                                          [&](const ChunkLayout& one) { return one.last_unit() < unit; });
  ESPALIER_INVARIANT(found != chunks.end() && found->holds(unit));
  return static_cast<int>(found - chunks.begin());
}

const StageLayout& Layout::stage_of_unit(int unit) const {
  return stages[static_cast<std::size_t>(chunks[static_cast<std::size_t>(chunk_of_unit(unit))].stage)];
}

bool Layout::chunked() const {
  for (std::size_t c = 0; c < chunks.size(); ++c)
    if (chunks[c].stage != static_cast<int>(c)) return true;
  return false;
}

Range table_rows(std::int64_t rows, int tp, int tp_rank) {
  const std::int64_t first = rows * tp_rank / tp;
  return {first, rows * (tp_rank + 1) / tp - first};
}

}  // namespace espalier::torchrt
