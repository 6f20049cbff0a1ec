#include "tests/bench/planner/schedule_placements.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/pipeline/improve.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/core/schedule/searched_placement.hpp"
#include "planner/core/solver/evaluator.hpp"
#include "tests/bench/planner/stopwatch.hpp"

namespace espalier::bench {
namespace {

struct Pipeline {
  Hardware hardware;
  Topology topology;
  JobCoefficients known;
  PlanBounds bounds;
  PlanSketch sketch;
  Plan plan;
  bool fits = false;
  Problem problem() const { return {hardware, topology, known, bounds, forms_of(kAutomaticSchedule, 0, false)}; }
};

Pipeline any_pipeline(pipeline::Chance& chance) {
  Pipeline made;
  made.hardware.types.push_back({"gpu", 300, 1e18, 3000});
  made.hardware.kinds.emplace_back();
  const int stages = 2 + chance.below(7), micro_batches = stages * (1 + chance.below(4));
  made.topology.add_node("n0", 0, std::vector<std::int16_t>(static_cast<std::size_t>(stages), 0), {});
  JobCoefficients& known = made.known;
  known.layers = stages * (4 + chance.below(5));
  known.global_batch = micro_batches;
  known.activ_bytes = 1e6;
  known.param_bytes = 4e8;
  known.param_optim_bytes = 1.4e9;
  known.weight_bytes = 4e8;
  known.activ_p_bytes = 4e8;
  known.deferred = 0.3 + 0.3 * chance.unit();
  known.first.compute_layers = chance.unit();
  known.last.compute_layers = 3 * chance.unit();
  known.gpu.push_back({10, 2, 1, 1, false, false, false, false});
  made.bounds.fixed_pp = stages;
  made.bounds.fixed_dp = made.bounds.fixed_tp = 1;
  made.bounds.fixed_micro_batches = made.sketch.micro_batches = micro_batches;
  std::vector<GpuId> gpus;
  for (int s = 0; s < stages; ++s) {
    gpus.push_back({"n0", s});
    StageSketch& one = made.sketch.stages.emplace_back();
    one.tp = one.layers = 1;
    one.pieces = {{0, 0, 1}};
  }
  made.plan = uniform_plan(stages, 1, known.layers, micro_batches, micro_batches, gpus);
  double most = 0;
  for (const StagePrediction& stage : evaluate_plan(made.hardware, made.topology, known, made.plan).stages)
    most = std::max(most, stage.memory.peak);
  made.hardware.types[0].memory_bytes = (0.5 + chance.unit()) * most / made.hardware.memory_share;
  Evaluator evaluator(made.problem());
  made.fits = evaluator.balance_sketch(made.sketch).feasible();
  if (!made.fits) return made;
  for (std::size_t s = 0; s < gpus.size(); ++s) made.plan.stages[s].layers = made.sketch.stages[s].layers;
  made.plan = with_form(std::move(made.plan), made.sketch.form);
  return made;
}

}  // namespace

PlacementFigures compare_placements(int count, std::uint64_t seed) {
  pipeline::Chance chance(seed);
  PlacementFigures result;
  ElasticJob job;
  job.model.setting.emplace().schedule = kAutomaticSchedule;
  double gains = 0, gains_changed = 0, bests = 0, ms = 0;
  for (int i = 0; i < count; ++i) {
    const Pipeline one = any_pipeline(chance);
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
