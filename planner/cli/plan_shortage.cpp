#include "planner/cli/plan_shortage.hpp"

#include <cstdio>

#include "planner/core/solver/best_plan.hpp"

namespace espalier::cli {
namespace {

bool fits(const Problem& problem, std::span<const Piece> available, double memory_factor) {
  Hardware hardware = problem.hardware;
  for (GpuType& type : hardware.types) type.memory_bytes *= memory_factor;
  Evaluator evaluator({hardware, problem.topology, problem.job, problem.bounds});
  SearchEffort effort;
  effort.local_steps = 20;
  return best_plan(evaluator, available, {}, effort).has_value();
}

// The factor on all GPUs' memory from which on there is a plan, from above to 1%; 0: no memory suffices.
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

std::string remedies(const PlanJob& job) {
  std::string text = "take more GPUs";
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
  const auto add = [&](const char* what, int value) {
    if (value > 0) fixed += (fixed.empty() ? "" : ", ") + (what + std::to_string(value));
  };
  add("TP degree ", problem.bounds.fixed_tp);
  add("DP degree ", problem.bounds.fixed_dp);
  add("micro-batches ", problem.bounds.fixed_micro_batches);
  if (job.min_gpus > 1) add("at least GPUs ", job.min_gpus);
  return "no valid plan" + (fixed.empty() ? std::string() : " with " + fixed) + ": " +
         std::to_string(job.shape.layers) + " layers and " + std::to_string(job.shape.global_batch) +
         " samples cannot be divided so";
}

}  // namespace espalier::cli
