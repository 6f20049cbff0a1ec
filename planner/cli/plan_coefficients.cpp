#include "planner/cli/plan_coefficients.hpp"

#include <algorithm>
#include <cstdio>

#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/iteration_profile.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/model/roofline.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/virtual_job.hpp"

namespace espalier::cli {
namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

JobCoefficients sizes_of(const PlanJob& job, const Site& site) {
  Training training = job.training;
  training.in_parts = job.schedule != "1f1b" || !job.lists.empty();
  JobCoefficients sizes = model_sizes(job.shape, training, site.hardware.types.size());
  sizes.own_lists = OwnLists::of(job.lists);
  return sizes;
}

void compute_at_utilization(const PlanJob& job, const Site& site, PlanCoefficients& result) {
  // Adam reads parameters, gradients and both moments. It writes parameters and both moments.
  const double traffic = 2 * result.job.param_optim_bytes + result.job.param_bytes;
  const bool by_bandwidth = bandwidths_known(site.hardware);
  for (std::size_t t = 0; t < site.hardware.types.size(); ++t) {
    const GpuType& type = site.hardware.types[t];
    result.job.gpu[t].comp = layer_flops(job.shape) / (type.tflops * 1e9 * job.utilization);
    result.job.gpu[t].optim = by_bandwidth ? traffic / type.memory_bandwidth : 0;
  }
  result.assumed.push_back("no step was measured: computation reaches " + number("%.3g", 100 * job.utilization) +
                           "% of a GPU's BF16 peak");
}

// Above this share of its peak no published training computes.
constexpr double kDoubtfulUtilization = 0.8;
// The formulas of memory are not wrong by more than this factor. What seems smaller is another training.
constexpr double kLeastMemoryFactor = 0.5;

// FLOP per ms. FP32 runs on TF32 units, which have half of the BF16 peak.
double peak_rate(const PlanJob& job, const GpuType& type) {
  return type.tflops * 1e9 * (job.precision == "fp32" ? 0.5 : 1);
}

// What the plan takes when every GPU computes at its peak, and all else takes no time.
double least_seconds(const PlanJob& job, const Site& site, const PlacedPlan& placed, JobCoefficients sizes) {
  for (double* bytes : {&sizes.activ_bytes, &sizes.param_bytes, &sizes.first.param_bytes, &sizes.last.param_bytes})
    *bytes = 0;
  for (std::size_t t = 0; t < sizes.gpu.size(); ++t) {
    sizes.gpu[t].comp = layer_flops(job.shape) / peak_rate(job, site.hardware.types[t]);
    sizes.gpu[t].optim = 0;
  }
  return evaluate_plan(site.hardware, sizes, placed).exact_ms / 1000;
}

// A step time with a slip in it would spoil every prediction.
void check_measured(const PlanJob& job, const Site& site, const PlacedPlan& placed, PlanCoefficients& result) {
  const double least = least_seconds(job, site, placed, result.job);
  const std::string peak = job.precision == "fp32" ? "TF32 peak" : "BF16 peak";
  if (job.step_seconds < least)
    throw Error(job.path + ": step_seconds: " + number("%.4g", job.step_seconds) + " s is impossible: at 100% of the " +
                peak + " of its GPUs this plan computes for " + number("%.4g", least) +
                " s; check step_seconds, present, global_batch and sequence");
  double most = 0;
  for (std::size_t t = 0; t < result.measured.size(); ++t)
    if (result.measured[t] && result.job.gpu[t].comp > 0)
      most = std::max(most, layer_flops(job.shape) / peak_rate(job, site.hardware.types[t]) / result.job.gpu[t].comp);
  if (most <= kDoubtfulUtilization) return;
  result.notes.push_back("with the communication that is assumed, " + number("%.4g", job.step_seconds) +
                         " s mean that computation reaches " + number("%.3g", 100 * most) + "% of the " + peak +
                         (most > 1 ? ", which no GPU does: plans with less communication are predicted too fast"
                                   : ", more than trainings do") +
                         "; check step_seconds and present, and the cluster's network");
}

// One measured step determines the speed of computation, if all other parts are as modelled.
void compute_as_measured(const PlanJob& job, const Site& site, const Plan& present, PlanCoefficients& result) {
  const PlacedPlan placed = place_plan(site.topology, present);
  result.job = calibrate_iteration(site.hardware, std::move(result.job), placed, {1000 * job.step_seconds, 0, 0});
  for (const PlacedStage& stage : placed.stages)
    for (int c = 0; c < stage.shape.class_count; ++c)
      result.measured[static_cast<std::size_t>(stage.shape.classes[static_cast<std::size_t>(c)].type)] = true;
  check_measured(job, site, placed, result);
  std::string others;
  for (std::size_t t = 0; t < result.measured.size(); ++t)
    if (!result.measured[t]) others += (others.empty() ? "" : ", ") + site.hardware.types[t].name;
  result.measurement = number("%.4g", job.step_seconds) + " s a step with pp" + std::to_string(job.present->pp) +
                       "/dp" + std::to_string(job.present->dp) + "/tp" + std::to_string(job.present->tp) + ", " +
                       counted(job.present->micro_batches, "micro-batch", "es");
  if (!others.empty())
    result.assumed.push_back("no step was measured on " + others +
                             ": scaled from the measured type by their peaks and memory bandwidths");
  result.assumed.push_back("communication is the cluster's, computation the rest of the measured step");
}

// What the file may have forgotten of a training that ran.
std::string forgotten(const PlanJob& job) {
  const bool zero1 = job.present->dp > 1 && !job.training.zero1, recompute = !job.training.recompute;
  if (!zero1 && !recompute) return "check present and its micro_batches";
  return std::string("check present and its micro_batches, and whether the training had ") +
         (zero1 ? "zero1 = true" : "") + (zero1 && recompute ? " or " : "") + (recompute ? "recompute = true" : "");
}

// A plan that runs fits into memory, whatever the formulas say.
void fit_memory(const PlanJob& job, const Site& site, const Plan& present, PlanCoefficients& result) {
  const PlanBounds bounds;
  const auto running = sketch_of(present, site);
  const double before = result.job.param_optim_bytes;
  fit_memory_to_running_plan({site.hardware, site.topology, result.job, bounds}, running.value(), result.job);
  const double factor = result.job.param_optim_bytes / before;
  if (factor < kLeastMemoryFactor)
    throw Error(job.path + ": present: does not fit: its GPUs hold " + number("%.3g", 100 * factor) +
                "% of what this training needs there; " + forgotten(job));
  if (factor < 1)
    result.assumed.push_back("memory is scaled by " + number("%.3g", factor) + ", so that the measured plan fits");
}

}  // namespace

PlanCoefficients plan_coefficients(const PlanJob& job, const Site& site, const std::optional<Plan>& present) {
  PlanCoefficients result;
  result.job = sizes_of(job, site);
  result.measured.assign(site.hardware.types.size(), false);
  if (present) compute_as_measured(job, site, *present, result);
  else compute_at_utilization(job, site, result);
  result.assumed.push_back("backward computation takes twice forward's, and hides no synchronization of gradients");
  if (result.job.deferred > 0)
    result.assumed.push_back("the gradients of parameters are " + number("%.3g", 100 * result.job.deferred) +
                             "% of the backward pass, by the model's shape");
  result.assumed.push_back("parameters and activations are those of the model's shape");
  if (present) fit_memory(job, site, *present, result);
  return result;
}

}  // namespace espalier::cli
