#include "planner/core/model/evaluate_plan.hpp"

#include <algorithm>
#include <cstdio>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", bytes / 1e9);
  return text;
}

StagePrediction predict_stage(const Hardware& hardware, const JobCoefficients& job, const PlacedStage& stage,
                              const StageTime& time, const StagePosition& at, int& fullest_type) {
  StagePrediction result;
  result.time = time;
  const StageRates rates = stage_rates(hardware, job, stage.shape, stage.shares);
  const StageLoad load = stage_load(job, stage.layers, at.first(), at.last());
  result.comp_fwd = load.compute_layers * rates.comp_fwd;
  result.comp_bwd = load.compute_layers * rates.comp_bwd;
  result.comm_fwd = stage.layers * (rates.fwd - rates.comp_fwd);
  result.comm_bwd = stage.layers * (rates.bwd - rates.comp_bwd);
  result.gradients = load.gradient_bytes * rates.gradient_ms_per_byte;
  result.sync = stage_sync(job, rates, stage.layers, at.first(), at.last());
  result.optim = time.extra - result.sync;
  for (int c = 0; c < stage.shape.class_count; ++c) {
    const auto k = static_cast<std::size_t>(c);
    const int type = stage.shape.classes[k].type;
    const double capacity = hardware.memory_share * hardware.types[static_cast<std::size_t>(type)].memory_bytes;
    const MemoryParts memory =
        peak_memory(job, stage.layers, stage.shares.most[k], stage.shape.tp, stage.shape.replicas, at);
    if (c == 0 || memory.peak * result.capacity > result.memory.peak * capacity) {
      result.memory = memory;
      result.capacity = capacity;
      fullest_type = type;
    }
  }
  return result;
}

}  // namespace

Prediction evaluate_plan(const Hardware& hardware, const JobCoefficients& job, const PlacedPlan& plan) {
  ESPALIER_INVARIANT(job.gpu.size() == hardware.types.size());
  Prediction result;
  const auto times = stage_times(hardware, job, plan);
  result.printed_ms = printed_iteration(times, plan.micro_batches);
  result.exact_ms = exact_iteration(hardware, job, plan, times);
  const int count = static_cast<int>(plan.stages.size());
  for (int i = 0; i < count; ++i) {
    const auto s = static_cast<std::size_t>(i);
    int type = 0;
    result.stages.push_back(predict_stage(hardware, job, plan.stages[s], times[s], plan.position(i, job), type));
    const StagePrediction& stage = result.stages.back();
    const int tp = plan.stages[s].shape.tp;
    if (!result.why_not.empty()) continue;
    if (std::find(job.tp_degrees.begin(), job.tp_degrees.end(), tp) == job.tp_degrees.end())
      result.why_not = "stage " + std::to_string(i) + " has TP degree " + std::to_string(tp) +
                       ", which does not divide the model's heads";
    else if (stage.memory.peak > stage.capacity)
      result.why_not = "stage " + std::to_string(i) + " needs " + gigabytes(stage.memory.peak) + " on a GPU of type " +
                       hardware.types[static_cast<std::size_t>(type)].name + ", which has " +
                       gigabytes(stage.capacity) + " for it";
  }
  result.feasible = result.why_not.empty();
  return result;
}

Prediction evaluate_plan(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                         const Plan& plan) {
  const auto impossible = [](std::string why) {
    Prediction none;
    none.why_not = std::move(why);
    return none;
  };
  // place_plan() checks everything else.
  if (plan.total_layers() != job.layers)
    if (auto broken = validate(plan, job.layers); !broken.empty()) return impossible(std::move(broken.front()));
  if (job.global_batch > 0 && plan.global_batch != job.global_batch)
    return impossible("the plan's global batch is " + std::to_string(plan.global_batch) + ", the job's " +
                      std::to_string(job.global_batch));
  try {
    return evaluate_plan(hardware, job, place_plan(topology, plan));
  } catch (const Error& error) {
    return impossible(error.what());
  }
}

}  // namespace espalier
