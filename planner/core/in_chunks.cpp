#include "planner/core/in_chunks.hpp"

#include <algorithm>

namespace espalier {
namespace {

// The stages that hold chunk 0, 1, ...
std::vector<int> stages_of_chunks(int stages, int per_stage, bool v_shaped) {
  std::vector<int> held_by;
  for (int leg = 0; leg < per_stage; ++leg)
    for (int s = 0; s < stages; ++s) held_by.push_back(v_shaped && leg % 2 == 1 ? stages - 1 - s : s);
  return held_by;
}

// Each layer goes to the chunk of its stage that has the fewest; among equals not to the model's first or last. False
// when a chunk that must not be empty gets none.
bool deal_layers(const Plan& plan, std::vector<Chunk>& chunks) {
  const auto edge = [&](std::size_t c) { return c == 0 || c + 1 == chunks.size(); };
  // By stage: its chunks in the order in which they get a layer each, again and again.
  std::vector<std::vector<std::size_t>> own(plan.stages.size());
  for (const bool edges : {false, true})
    for (std::size_t c = 0; c < chunks.size(); ++c)
      if (edge(c) == edges) own[static_cast<std::size_t>(chunks[c].stage)].push_back(c);
  for (std::size_t s = 0; s < own.size(); ++s) {
    const int count = static_cast<int>(own[s].size()), layers = plan.stages[s].layers;
    for (int k = 0; k < count; ++k)
      chunks[own[s][static_cast<std::size_t>(k)]].layers = layers / count + (k < layers % count ? 1 : 0);
  }
  for (std::size_t c = 0; c < chunks.size(); ++c)
    if (chunks[c].layers == 0 && !edge(c)) return false;
  return true;
}

}  // namespace

Plan in_chunks(Plan plan, const ParallelLimits& limits) {
  if (!plan.chunks.empty() || limits.chunks < 2 || !validate(plan).empty()) return plan;
  // A V has two legs; half of one is none.
  const int fewest = limits.v_shaped ? 2 : 1;
  for (int per_stage = std::min(limits.chunks, plan.total_layers() + 2); per_stage > 1 && per_stage >= fewest;
       --per_stage) {
    std::vector<Chunk> chunks;
    for (const int stage : stages_of_chunks(static_cast<int>(plan.stages.size()), per_stage, limits.v_shaped))
      chunks.push_back({stage, 0});
    if (!deal_layers(plan, chunks)) continue;
    plan.chunks = std::move(chunks);
    break;
  }
  return plan;
}

}  // namespace espalier
