#include "planner/cli/plan_shortage.hpp"

#include <cstdio>
#include <vector>

#include "planner/core/counted.hpp"
#include "planner/core/solver/best_plan.hpp"

namespace espalier::cli {
namespace {

constexpr double kLowered = 0.98;  // of the memory that is needed; memory_needed() tells it to 1%

bool fits(const Problem& problem, std::span<const Piece> available, double memory_factor) {
  Hardware hardware = problem.hardware;
  for (GpuType& type : hardware.types) type.memory_bytes *= memory_factor;
  Evaluator evaluator({hardware, problem.topology, problem.job, problem.bounds, problem.forms});
  SearchEffort effort;
  effort.local_steps = 20;
  return best_plan(evaluator, available, {}, effort).has_value();
}

// The smallest factor on all GPUs' memory with which a plan exists, rounded up by at most 1%. 0: no
// amount of memory suffices.
double memory_needed(const Problem& problem, std::span<const Piece> available) {
  double low = 1, high = 2;
  while (!fits(problem, available, high)) {
    low = high;
    if ((high *= 4) > 1e6) return 0;
  }
  while (high / low > 1.01) {
    const double middle = (low + high) / 2;
    (fits(problem, available, middle) ? high : low) = middle;
  }
  return high;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " or ") + word;
  return text;
}

// What the job's file may say otherwise, each tried by itself: what makes the job fit, or else what at least lowers the
// memory that it needs. `factor`: memory_needed().
std::string remedies(const Problem& problem, std::span<const Piece> available, const PlanJob& job, double factor) {
  std::vector<std::string> enough, lower;
  PlanBounds bounds = problem.bounds;
  const auto try_out = [&](const std::string& name, const JobCoefficients& changed,
                           std::span<const PipelineForm> forms) {
    const Problem other{problem.hardware, problem.topology, changed, bounds, forms};
    if (fits(other, available, 1)) enough.push_back(name);
    else if (fits(other, available, factor * kLowered)) lower.push_back(name);
  };
  if (job.lists.empty() && job.schedule != "1f1b" && job.schedule != "auto")
    try_out("schedule = \"1f1b\"", problem.job, {});
  if (job.shape.micro_batches > 0) {
    bounds.fixed_micro_batches = 0;
    try_out("micro_batches = 0", problem.job, problem.forms);
    bounds = problem.bounds;
  }
  JobCoefficients changed = problem.job;
  changed.recompute = true;
  changed.deferred = 0;  // as model_sizes() has it
  if (!job.training.recompute) try_out("recompute = true", changed, problem.forms);
  changed = problem.job;
  changed.zero1 = true;
  if (!job.training.zero1) try_out("zero1 = true", changed, problem.forms);
  if (job.precision == "fp32") {
    Training training = job.training;
    training.bytes = element_bytes("bf16");
    changed = model_sizes(job.shape, training, problem.job.gpu.size());
    changed.gpu = problem.job.gpu;
    changed.own_lists = problem.job.own_lists;
    try_out("precision = \"bf16\"", changed, problem.forms);
  }
  enough.insert(enough.begin(), "take more GPUs");
  if (enough.size() > 1 || lower.empty()) return joined(enough);
  return enough.front() + "; " + joined(lower) + " lowers it, but not enough";
}

}  // namespace

std::string shortage(const Problem& problem, std::span<const Piece> available, const PlanJob& job) {
  const double factor = memory_needed(problem, available);
  if (factor > 0) {
    double largest = 0;
    for (const Piece& piece : available)
      largest = std::max(largest, problem.hardware.types[static_cast<std::size_t>(piece.type)].memory_bytes);
    const double usable = problem.hardware.memory_share * largest / 1e9;
    char text[160];
    std::snprintf(text, sizeof text, "does not fit: needs %.1f GB on a GPU, which has %.1f GB for it; ",
                  usable * factor, usable);
    return text + remedies(problem, available, job, factor);
  }
  std::string fixed;
  const auto add = [&](int value, const std::string& what) {
    if (value > 0) fixed += (fixed.empty() ? " with " : ", ") + what;
  };
  const PlanBounds& bounds = problem.bounds;
  add(bounds.fixed_tp, "TP degree " + std::to_string(bounds.fixed_tp));
  add(bounds.fixed_pp, counted(bounds.fixed_pp, "stage"));
  add(bounds.fixed_dp, "DP degree " + std::to_string(bounds.fixed_dp));
  add(bounds.fixed_micro_batches, counted(bounds.fixed_micro_batches, "micro-batch", "es"));
  add(bounds.min_gpus - 1, "at least " + counted(bounds.min_gpus, "GPU"));
  return "no valid plan" + fixed + ": " + counted(job.shape.layers, "layer") + " and " +
         counted(job.shape.global_batch, "sample") + " cannot be divided so";
}

}  // namespace espalier::cli
