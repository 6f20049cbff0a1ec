#include "planner/cli/plan_shortage.hpp"

#include <cstdio>

#include "planner/core/solver/best_plan.hpp"

namespace espalier::cli {
namespace {

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

std::string counted(int count, const std::string& thing, const std::string& plural) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : plural);
}

std::string remedies(const PlanJob& job) {
  std::string text = "take more GPUs";
  if (job.lists.empty() && job.schedule != "1f1b" && job.schedule != "auto") text += ", schedule = \"1f1b\"";
  if (!job.training.recompute) text += ", recompute = true";
  if (!job.training.zero1) text += ", zero1 = true";
  if (job.precision == "fp32") text += ", precision = \"bf16\"";
  return text;
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
    return text + remedies(job);
  }
  std::string fixed;
  const auto add = [&](int value, const std::string& what) {
    if (value > 0) fixed += (fixed.empty() ? " with " : ", ") + what;
  };
  const PlanBounds& bounds = problem.bounds;
  add(bounds.fixed_tp, "TP degree " + std::to_string(bounds.fixed_tp));
  add(bounds.fixed_pp, counted(bounds.fixed_pp, "stage", "s"));
  add(bounds.fixed_dp, "DP degree " + std::to_string(bounds.fixed_dp));
  add(bounds.fixed_micro_batches, counted(bounds.fixed_micro_batches, "micro-batch", "es"));
  add(bounds.min_gpus - 1, "at least " + counted(bounds.min_gpus, "GPU", "s"));
  return "no valid plan" + fixed + ": " + counted(job.shape.layers, "layer", "s") + " and " +
         counted(job.shape.global_batch, "sample", "s") + " cannot be divided so";
}

}  // namespace espalier::cli
