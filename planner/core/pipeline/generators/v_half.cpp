#include "planner/core/pipeline/generators/building_block.hpp"
#include "planner/core/pipeline/generators/generators.hpp"
#include "planner/core/pipeline/simulate.hpp"

namespace espalier::pipeline {

Schedule v_half(const Shape& shape) {
  // 1F1B keeps two chunks' activations a rank. Ranks that meet their neighbours' passes later leave room for delays: of
  // the blocks that keep half of it, the fastest, when F, I and W take the same time.
  std::optional<Schedule> best;
  double least = 0;
  for (const int forward_step : {2, 1})
    for (const int backward_step : {2, 1}) {
      const auto block = shortest_block(forward_step, backward_step, shape.ranks, shape.ranks);
      if (!block) continue;
      Schedule schedule = repeat(*block, shape.ranks, shape.micro_batches);
      const double time = simulate(schedule, Costs(schedule.rank_of_chunk.size())).time;
      if (best && time >= least) continue;
      best = std::move(schedule);
      least = time;
    }
  // On few ranks no block keeps so little.
  return best ? *best : v_min(shape);
}

}  // namespace espalier::pipeline
