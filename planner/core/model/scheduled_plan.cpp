#include "planner/core/model/scheduled_plan.hpp"

#include <algorithm>

#include "planner/core/model/own_lists.hpp"
#include "planner/core/model/scheduled_time.hpp"

namespace espalier {

std::vector<Chunk> cut_or_whole(std::span<const int> layers, PipelineForm form) {
  auto chunks = cut(layers, form);
  if (chunks.empty())
    for (std::size_t s = 0; s < layers.size(); ++s) chunks.push_back({static_cast<int>(s), layers[s]});
  return chunks;
}

pipeline::Costs chunk_costs(const JobCoefficients& job, std::span<const StageRates> rates,
                            std::span<const StageTime> times, std::span<const Chunk> chunks) {
  pipeline::Costs costs;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto stage = static_cast<std::size_t>(chunks[c].stage);
    const StageTime time = stage_time(job, rates[stage], chunks[c].layers, c == 0, c + 1 == chunks.size());
    pipeline::ChunkCosts cost{time.fwd, time.bwd - time.late, time.late, time.bwd};
    const auto send = [&](std::size_t to) {
      const auto other = static_cast<std::size_t>(chunks[to].stage);
      const bool next = std::max(stage, other) - std::min(stage, other) == 1;
      return times[next ? std::min(stage, other) : times.size() - 1].send;
    };
    if (c + 1 < chunks.size()) cost.send_forward = send(c + 1);
    if (c > 0) cost.send_backward = send(c - 1);
    costs.push_back(cost);
  }
  return costs;
}

double scheduled_iteration(const JobCoefficients& job, PipelineForm form, std::span<const StageRates> rates,
                           std::span<const StageTime> times, std::span<const Chunk> chunks, int micro_batches) {
  std::vector<double> after;
  for (const StageTime& time : times) after.push_back(time.extra);
  if (const OwnLists* own = lists_that_run(job, form, static_cast<int>(times.size()), micro_batches))
    return own->time(chunk_costs(job, rates, times, chunks), after);
  return scheduled_time(form, static_cast<int>(times.size()), micro_batches, chunk_costs(job, rates, times, chunks),
                        after);
}

}  // namespace espalier
