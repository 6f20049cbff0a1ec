#include "tests/bench/planner/random_pipeline.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/core/solver/evaluator.hpp"

namespace espalier::bench {

JobCoefficients random_pipeline_job(pipeline::Chance& chance, int layers, int micro_batches) {
  JobCoefficients known;
  known.layers = layers;
  known.global_batch = micro_batches;
  known.activ_bytes = 1e6;
  known.param_bytes = 4e8;
  known.param_optim_bytes = 1.4e9;
  known.weight_bytes = 4e8;
  known.activ_p_bytes = 4e8;
  known.deferred = 0.3 + 0.3 * chance.unit();
  known.first.compute_layers = chance.unit();
  known.last.compute_layers = 3 * chance.unit();
  return known;
}

RandomPipeline::RandomPipeline(pipeline::Chance& chance, PipelineSizes sizes) {
  hardware.types.push_back({"gpu", 300, 1e18, 3000});
  hardware.kinds.emplace_back();
  const int stages = 2 + chance.below(sizes.stages_beyond_one),
            micro_batches = stages * (1 + chance.below(sizes.rounds_of_micro_batches)),
            layers = stages * (4 + chance.below(sizes.kinds_of_layers));
  topology.add_node("n0", 0, std::vector<std::int16_t>(static_cast<std::size_t>(stages), 0), {});
  known = random_pipeline_job(chance, layers, micro_batches);
  known.gpu.push_back({10, 2, 1, 1, false, false, false, false});
  bounds.fixed_pp = stages;
  bounds.fixed_dp = bounds.fixed_tp = 1;
  bounds.fixed_micro_batches = sketch.micro_batches = micro_batches;
  std::vector<GpuId> gpus;
  for (int s = 0; s < stages; ++s) {
    gpus.push_back({"n0", s});
    StageSketch& one = sketch.stages.emplace_back();
    one.tp = one.layers = 1;
    one.pieces = {{0, 0, 1}};
  }
  plan = uniform_plan(stages, 1, layers, micro_batches, micro_batches, gpus);
  double most = 0;
  for (const StagePrediction& stage : evaluate_plan(hardware, topology, known, plan).stages)
    most = std::max(most, stage.memory.peak);
  hardware.types[0].memory_bytes = (0.5 + chance.unit()) * most / hardware.memory_share;
  fits = Evaluator(problem()).balance_sketch(sketch).feasible();
  if (!fits) return;
  for (std::size_t s = 0; s < gpus.size(); ++s) plan.stages[s].layers = sketch.stages[s].layers;
  plan = with_form(std::move(plan), sketch.form);
}

}  // namespace espalier::bench
