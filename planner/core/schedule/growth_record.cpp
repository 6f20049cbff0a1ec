#include "planner/core/schedule/growth_record.hpp"

#include <algorithm>
#include <cstdio>

#include "planner/core/schedule/describe_sketch.hpp"

namespace espalier {
namespace {

constexpr std::size_t kKeptCandidates = 32;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

std::string seconds_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g s", value);
  return text;
}

// Divides as if one more GPU shared the node's remaining CPUs and memory, so that some always
// remain.
ExtensionRequest request_for(const Supply& supply, int gpus) {
  const int sharers = static_cast<int>(supply.gpus.size()) + 1;
  const int cpus = std::max(gpus, supply.free_cpus * gpus / sharers);
  return {supply.node->name, gpus, cpus, std::max(1L, supply.free_memory_mb * gpus / sharers), supply.lease_minutes};
}

std::vector<Candidate> candidates_of(const VirtualJob& job, std::size_t chosen, double threshold, double discount,
                                     double least_gain, double seconds_per_ms) {
  const auto& prefixes = job.prefixes();
  std::vector<std::size_t> order;
  for (std::size_t i = 1; i < prefixes.size(); ++i)
    if (prefixes[i].plan.feasible()) order.push_back(i);
  if (order.size() > kKeptCandidates) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if ((a == chosen) != (b == chosen)) return a == chosen;
      return job.benefit_of(a) > job.benefit_of(b);
    });
    order.resize(kKeptCandidates);
    std::sort(order.begin(), order.end());
  }
  const double best = job.benefit_of(chosen) * discount;
  std::vector<Candidate> candidates;
  for (const std::size_t i : order) {
    const double benefit = job.benefit_of(i) * discount;
    Candidate candidate{describe_sketch(prefixes[i].plan.sketch, job.problem().topology),
                        prefixes[i].gpus,
                        prefixes[i].plan.ms * seconds_per_ms,
                        benefit,
                        {}};
    if (i == chosen) {
    } else if (prefixes[i].plan.ms * least_gain > job.present().ms) {
      candidate.rejected_by = "gains less than " + number(100 * (least_gain - 1)) + "% throughput over " +
                              seconds_text(job.present().ms * seconds_per_ms) + " per step";
    } else if (benefit < threshold) {
      candidate.rejected_by =
          "its marginal benefit of " + number(benefit) + " is below the threshold of " + number(threshold);
    } else {
      candidate.rejected_by = "its marginal benefit of " + number(benefit) + " is not the highest (" + number(best) +
                              " with " + std::to_string(prefixes[chosen].gpus) + " GPUs)";
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace espalier
