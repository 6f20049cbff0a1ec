#include "planner/core/model/form_figures.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "planner/core/model/scheduled_time.hpp"

namespace espalier {
namespace {

constexpr int kMostSimulated = 32;  // stages
constexpr double kParts = 48;       // shares are rounded to multiples of 1/48
constexpr std::size_t kMostKept = 4096;

std::uint64_t key_of(PipelineForm form, int stages, int micro_batches, int a, int b) {
  auto key = static_cast<std::uint64_t>(form.kind) << 56 ^ static_cast<std::uint64_t>(form.chunks) << 48;
  key ^= static_cast<std::uint64_t>(stages) << 36 ^ static_cast<std::uint64_t>(micro_batches) << 14;
  return key ^ static_cast<std::uint64_t>(a) << 7 ^ static_cast<std::uint64_t>(b);
}

// One thread's figures: the planner's solvers run on several threads, and each meets the same few forms.
template <class Value, class Make>
const Value& kept(std::unordered_map<std::uint64_t, Value>& known, std::uint64_t key, const Make& make) {
  if (const auto at = known.find(key); at != known.end()) return at->second;
  if (known.size() >= kMostKept) known.clear();
  return known.emplace(key, make()).first->second;
}

double simulated_fill(PipelineForm form, int stages, int micro_batches, double forward, double weights) {
  const double chunks = form.chunks;
  const pipeline::ChunkCosts chunk{forward / chunks, (1 - forward - weights) / chunks, weights / chunks,
                                   (1 - forward) / chunks};
  const pipeline::Costs costs(static_cast<std::size_t>(stages * form.chunks), chunk);
  const double time = scheduled_time(form, stages, micro_batches, costs, std::vector<double>(costs.size(), 0.0));
  return (time - micro_batches) / (stages - 1);
}

// Stages that are simulated: fewer, the more chunks each of them has, because the lists grow with both.
int most_simulated(int chunks) {
  int most = kMostSimulated;
  while (most > 2 && most * most * chunks > 4 * kMostSimulated * kMostSimulated) --most;
  return most;
}

}  // namespace

double fill_share(PipelineForm form, int stages, int micro_batches, WorkShares work) {
  if (form.plain()) return 1 - work.weights;
  if (stages < 2) return 1;
  if (const int most = most_simulated(form.chunks); stages > most) {
    micro_batches = std::max(1, static_cast<int>(std::int64_t{micro_batches} * most / stages));
    stages = most;
  }
  const int a = static_cast<int>(std::lround(kParts * work.forward));
  const int b = static_cast<int>(std::lround(kParts * work.weights));
  thread_local std::unordered_map<std::uint64_t, double> known;
  return kept(known, key_of(form, stages, micro_batches, a, b),
              [&] { return simulated_fill(form, stages, micro_batches, a / kParts, b / kParts); });
}

double micro_batches_held(PipelineForm form, int stages, int micro_batches, int stage, bool recompute) {
  if (form.plain()) return std::min(stages - stage, micro_batches);
  if (form.schedule() == "gpipe") return micro_batches;
  if (stages < 2 || stages > kMostListedStages) return std::min(stages - stage, micro_batches);
  if (stages * form.chunks > kMostListedChunks) return std::min(stages - stage, micro_batches);
  micro_batches = enough_micro_batches(stages, micro_batches);
  thread_local std::unordered_map<std::uint64_t, std::vector<double>> known;
  const auto& held = kept(known, key_of(form, stages, micro_batches, recompute ? 1 : 0, 0), [&] {
    const std::vector<double> weight(static_cast<std::size_t>(stages * form.chunks), 1.0 / form.chunks);
    return most_held(*lists_of(form, stages, micro_batches), weight, recompute);
  });
  return held[static_cast<std::size_t>(stage)];
}

}  // namespace espalier
