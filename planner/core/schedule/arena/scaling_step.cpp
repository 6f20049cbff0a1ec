#include "planner/core/schedule/arena/scaling_step.hpp"

#include <algorithm>
#include <bit>

namespace espalier {

int doubled(int gpus) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(2 * std::max(1, gpus)))); }

int buddy_count(int gpus, int basic) {
  if (gpus <= basic) return gpus;
  return std::max(basic, static_cast<int>(std::bit_floor(static_cast<unsigned>(gpus))));
}

std::optional<ScalingStep> best_step(std::span<const ScalingJob> jobs, std::span<const int> free,
                                     const std::function<bool(const ScalingStep&)>& refused) {
  std::optional<ScalingStep> best;
  const int pools = static_cast<int>(free.size());
  for (int from = 0; from < pools; ++from)
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const ScalingJob& one = jobs[j];
      if (one.pool != from || one.gpus < 1) continue;
      const double now = one.throughput(from, one.gpus);
      // Whether the step can be; if so it is compared.
      const auto consider = [&](int pool, int gpus) {
        const int room = free[static_cast<std::size_t>(pool)] + (pool == from ? one.gpus : 0);
        if (gpus > room) return false;
        const double next = one.throughput(pool, gpus);
        const ScalingStep step{j, pool, gpus, (next - now) * one.weight};
        if (next <= 0 || step.gain <= 0 || (refused && refused(step))) return false;
        if (!best || step.gain > best->gain) best = step;
        return true;
      };
      for (int pool = 0; one.switches && pool < pools; ++pool)
        if (pool != from) consider(pool, one.gpus);
      if (!one.doubles) continue;
      for (int gpus = doubled(one.gpus); gpus <= one.most_gpus && !consider(from, gpus) && refused;)
        gpus = doubled(gpus);
    }
  return best;
}

}  // namespace espalier
