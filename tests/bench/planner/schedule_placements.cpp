#include "tests/bench/planner/schedule_placements.hpp"

#include <algorithm>
#include <vector>

#include "planner/core/schedule/searched_placement.hpp"
#include "tests/bench/planner/random_pipeline.hpp"
#include "tests/bench/planner/stopwatch.hpp"

namespace espalier::bench {
PlacementFigures compare_placements(int count, std::uint64_t seed) {
  pipeline::Chance chance(seed);
  PlacementFigures result;
  ElasticJob job;
  job.model.setting.emplace().schedule = kAutomaticSchedule;
  double gains = 0, gains_changed = 0, bests = 0, ms = 0;
  for (int i = 0; i < count; ++i) {
    const RandomPipeline one(chance);
    if (!one.fits) continue;
    const Stopwatch watch;
    const Plan plan = with_searched_placement(one.plan, one.sketch, one.problem(), job);
    const double took = watch.cpu_ms();
    const std::vector<PlacementReach> list = placement_reaches(one.plan, one.sketch, one.problem());
    if (list.size() < 2) continue;
    const PlacementReach& named = list.front();
    const PlacementReach& best = *std::min_element(
        list.begin(), list.end(), [](const auto& a, const auto& b) { return a.searched_ms < b.searched_ms; });
    const PlacementReach& chosen =
        *std::find_if(list.begin(), list.end(), [&](const PlacementReach& reach) { return reach.plan == plan; });
    const double gain = named.searched_ms / chosen.searched_ms;
    ++result.compared;
    gains += gain;
    bests += chosen.searched_ms / best.searched_ms;
    ms += took;
    result.gain_most = std::max(result.gain_most, gain);
    result.slower_most = std::max(result.slower_most, chosen.named_ms / named.named_ms);
    result.ms_most = std::max(result.ms_most, took);
    if (plan == one.plan) continue;
    ++result.changed;
    gains_changed += gain;
  }
  if (result.compared == 0) return result;
  result.gain_mean = gains / result.compared;
  result.best_mean = bests / result.compared;
  result.ms_mean = ms / result.compared;
  if (result.changed > 0) result.gain_changed = gains_changed / result.changed;
  return result;
}

}  // namespace espalier::bench
