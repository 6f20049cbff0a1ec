#include "planner/cli/plan_report.hpp"

#include <algorithm>

#include "planner/core/model/own_lists.hpp"

namespace espalier::cli {
namespace {

const StagePrediction& fullest(const PlannedCount& planned) {
  return *std::max_element(planned.prediction.stages.begin(), planned.prediction.stages.end(),
                           [](const auto& a, const auto& b) { return memory_share(a) < memory_share(b); });
}

Json stage_json(const StagePrediction& stage) {
  return {{"forward_ms", stage.time.fwd},
          {"backward_ms", stage.time.bwd},
          {"forward_tp_communication_ms", stage.comm_fwd},
          {"backward_tp_communication_ms", stage.comm_bwd},
          {"send_ms", stage.time.send},
          {"gradient_synchronization_ms", stage.gradients},
          {"exposed_synchronization_ms", stage.sync},
          {"optimizer_ms", stage.optim},
          {"memory_bytes",
           {{"parameters_and_optimizer", stage.memory.param_optim},
            {"activations", stage.memory.activations},
            {"gradients", stage.memory.gradients},
            {"edges", stage.memory.edge},
            {"peak", stage.memory.peak},
            {"limit", stage.capacity}}}};
}

}  // namespace

const PlannedCount& PlanReport::base() const {
  return *std::find_if(plans.begin(), plans.end(), [](const PlannedCount& p) { return p.plan; });
}

double PlanReport::speedup(const PlannedCount& planned) const { return base().seconds() / planned.seconds(); }

double PlanReport::efficiency(const PlannedCount& planned) const {
  return speedup(planned) * base().gpus / planned.gpus;
}

double memory_share(const StagePrediction& stage) { return stage.memory.peak / stage.capacity; }
double memory_share(const PlannedCount& planned) { return memory_share(fullest(planned)); }

std::string schedule_of(const PlanReport& report, const Plan& plan) {
  const auto& own = report.coefficients.job.own_lists;
  if (own && own->run_on(plan)) return "own-lists";
  return plan.schedule.empty() ? "1f1b" : plan.schedule;
}

Record plan_record(const PlanReport& report, const PlannedCount& planned) {
  if (!planned.plan)
    return {{{"GPUs", std::to_string(planned.gpus)}, {"Plan", "(null)"}}, {{"Reason", planned.why_not}}};
  const Json plan = *planned.plan;
  const StagePrediction& full = fullest(planned);
  return {
      {{"GPUs", std::to_string(planned.gpus)},
       {"UsedGPUs", std::to_string(planned.plan->gpu_count())},
       {"Plan", plan_text(plan)},
       {"Layers", layers_text(plan)},
       {"Schedule", schedule_of(report, *planned.plan)},
       {"Chunks", std::to_string(std::max<std::size_t>(1, planned.plan->chunks.size() / planned.plan->stages.size()))},
       {"MicroBatches", std::to_string(planned.plan->micro_batches)}},
      {{"StepTime", number_text(planned.seconds(), 4)},
       {"TokensPerSec", number_text(report.tokens_per_second(planned), 1)},
       {"Speedup", number_text(report.speedup(planned), 3)},
       {"Efficiency", number_text(report.efficiency(planned), 3)}},
      {{"PeakMemoryGB", number_text(full.memory.peak / 1e9, 2)},
       {"MemoryLimitGB", number_text(full.capacity / 1e9, 2)},
       {"Assumed", planned.measured ? "memory" : "time,memory"}},
      {{"PlanGPUs", ranks_text(plan)}}};
}

Json plan_json(const PlanReport& report) {
  Json plans = Json::array();
  for (const PlannedCount& planned : report.plans) {
    Json entry{{"gpus", planned.gpus}, {"plan", nullptr}};
    if (!planned.plan) {
      entry["why_not"] = planned.why_not;
      plans.push_back(std::move(entry));
      continue;
    }
    entry["plan"] = *planned.plan;
    entry["used_gpus"] = planned.plan->gpu_count();
    entry["step_seconds"] = planned.seconds();
    entry["printed_step_seconds"] = planned.prediction.printed_ms / 1000;
    entry["tokens_per_second"] = report.tokens_per_second(planned);
    entry["speedup"] = report.speedup(planned);
    entry["efficiency"] = report.efficiency(planned);
    entry["assumed"] = planned.measured ? Json{"memory"} : Json{"time", "memory"};
    for (const StagePrediction& stage : planned.prediction.stages) entry["stages"].push_back(stage_json(stage));
    plans.push_back(std::move(entry));
  }
  return {{"job", {{"model", report.job.model}, {"shape", report.job.shape}, {"precision", report.job.precision}}},
          {"cluster", report.cluster},
          {"measured", report.coefficients.measurement ? Json(*report.coefficients.measurement) : Json(nullptr)},
          {"assumed", report.coefficients.assumed},
          {"notes", report.notes},
          {"plans", std::move(plans)}};
}

}  // namespace espalier::cli
