#include "planner/daemon/report_check.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr int kMostLayers = 100000, kMostGpus = 1 << 20;
// Limit for samples and micro-batches. The planner searches divisors of the first and loops over
// the second.
constexpr int kMostSamples = 1 << 20;
constexpr int kMostHidden = 1 << 20, kMostHeads = 1 << 16, kMostTokens = 1 << 26;
constexpr std::size_t kLongestName = 1024, kLongestNode = 255, kLongestFamily = 64, kLongestPhase = 64;
constexpr std::size_t kLongestSetting = 128;
constexpr int kMostPhases = 64, kMostDegrees = 32, kMostCandidates = 32, kMostChunks = 64;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;  // adding to a step cannot overflow

class Check {
 public:
  explicit Check(JobId job) : job_(job) {}

  void within(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value < least || value > most)
      fail(std::string(what) + " " + std::to_string(value) + "; it must be between " + std::to_string(least) + " and " +
           std::to_string(most));
  }
  void no_longer(std::string_view what, const std::string& text, std::size_t most) const {
    if (text.size() > most)
      fail(std::string(what) + " of " + std::to_string(text.size()) + " bytes; at most " + std::to_string(most) +
           " are taken");
  }
  void time(std::string_view what, double value) const {
    if (!std::isfinite(value) || value < 0) fail(std::string(what) + " that is no time");
  }
  void gpu(const std::string& node, int index) const {
    no_longer("a node name", node, kLongestNode);
    within("GPU index", index, 0, kMostGpusOfNode - 1);
  }

  void holdings(const std::vector<Holding>& all, const std::string& what) const {
    std::vector<std::tuple<JobId, const std::string*, int>> gpus;
    for (const Holding& held : all)
      for (const int index : held.gpus) {
        gpu(held.node, index);
        gpus.emplace_back(held.job, &held.node, index);
      }
    within("a number of GPUs of", static_cast<std::int64_t>(gpus.size()), 0, kMostGpus);
    const auto key = [](const auto& one) { return std::tie(std::get<0>(one), *std::get<1>(one), std::get<2>(one)); };
    std::sort(gpus.begin(), gpus.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    const auto twice =
        std::adjacent_find(gpus.begin(), gpus.end(), [&](const auto& a, const auto& b) { return key(a) == key(b); });
    if (twice != gpus.end())
      fail("GPU " + *std::get<1>(*twice) + "/" + std::to_string(std::get<2>(*twice)) + " twice in its " + what);
  }

  // `model_layers` 0: unknown. `most`: GPUs.
  void plan(const Plan& plan, int model_layers, std::int64_t most = kMostGpus) const {
    within("a plan with a global batch of", plan.global_batch, 1, kMostSamples);
    within("a plan with a number of micro-batches of", plan.micro_batches, 1, kMostSamples);
    if (plan.stages.empty()) fail("a plan without stages");
    std::int64_t layers = 0, gpus = 0;
    for (const Stage& stage : plan.stages) {
      within("a plan with a stage's number of layers of", stage.layers, 1, kMostLayers);
      layers += stage.layers;
      std::int64_t samples = 0;
      for (const Replica& replica : stage.replicas) {
        within("a plan with a replica's share of", replica.share, 1, kMostSamples);
        samples += replica.share;
        gpus += static_cast<std::int64_t>(replica.gpus.size());
        for (const GpuId& one : replica.gpus) gpu(one.node, one.index);
      }
      within("a plan with a stage's sum of shares of", samples, 1, kMostSamples);
    }
    within("a plan with a number of layers of", layers, 1, kMostLayers);
    within("a plan with a number of chunks of", static_cast<std::int64_t>(plan.chunks.size()), 0, kMostLayers + 2);
    for (const Chunk& chunk : plan.chunks) within("a plan with a chunk's layers of", chunk.layers, 0, kMostLayers);
    no_longer("the name of a plan's schedule", plan.schedule, kLongestSetting);
    if (printable(plan.schedule) != plan.schedule) fail("a plan whose schedule is not plain text");
    within("a plan with a number of GPUs of", gpus, 1, most);
    // All sums are in range now, so validate() cannot overflow.
    if (const auto broken = validate(plan, model_layers); !broken.empty()) fail("an invalid plan: " + broken.front());
  }

  void count(std::string_view what, std::size_t number, std::int64_t most) const {
    within(what, static_cast<std::int64_t>(number), 0, most);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("job " + std::to_string(job_) + ": reported with " + what);
  }

 private:
  JobId job_;
};

}  // namespace

void check_report(const ElasticJob& job) {
  const Check check(job.id);
  check.no_longer("a name", job.name, kLongestName);
  check.within("min_gpus", job.min_gpus, 0, kMostGpus);
  check.within("max_gpus", job.max_gpus, 0, kMostGpus);
  check.within("step", job.step, 0, kMostSteps);
  check.within("generation", job.generation, 0, std::numeric_limits<int>::max());
  check.time("step_seconds", job.step_seconds);
  const ModelShape& model = job.model;
  check.no_longer("a model family", model.family, kLongestFamily);
  check.within("model.layers", model.layers, 0, kMostLayers);
  check.within("model.mtp_layers", model.mtp_layers, 0, std::max(0, model.layers - 1));
  check.within("model.hidden", model.hidden, 0, kMostHidden);
  check.within("model.heads", model.heads, 0, kMostHeads);
  check.within("model.sequence", model.sequence, 0, kMostTokens);
  check.within("model.vocabulary", model.vocabulary, 0, kMostTokens);
  check.within("model.global_batch", model.global_batch, 0, kMostSamples);
  check.within("model.micro_batches", model.micro_batches, 0, kMostSamples);
  check.within("model.key_value_heads", model.key_value_heads, 0, kMostHeads);
  check.within("model.intermediate", model.intermediate, 0, kMostHidden * 64);
  check.within("a number of replica sizes of", static_cast<std::int64_t>(model.units.size()), 0, kMostDegrees);
  for (const int unit : model.units) check.within("a replica of", unit, 1, kMostGpus);
  if (std::adjacent_find(model.units.begin(), model.units.end(), std::greater_equal<>()) != model.units.end())
    check.fail("replica sizes that do not ascend");
  if (model.setting)
    for (const std::string* text :
         {&model.setting->program, &model.setting->runtime, &model.setting->precision, &model.setting->schedule}) {
      check.no_longer("a text of its training's setting", *text, kLongestSetting);
      if (printable(*text) != *text) check.fail("a text of its training's setting that is not plain text");
    }
  check.within("floor_gpus", job.floor_gpus, 0, kMostGpus);
  check.time("deadline", job.deadline);
  const ParallelLimits& limits = job.parallel;
  for (const int degree : {limits.pp, limits.dp, limits.tp}) check.within("a parallel degree of", degree, 0, kMostGpus);
  check.within("parallel.micro_batches", limits.micro_batches, 0, kMostSamples);
  check.within("parallel.chunks", limits.chunks, 0, kMostChunks);
  check.within("a number of TP degrees of", static_cast<std::int64_t>(limits.tp_degrees.size()), 0, kMostDegrees);
  for (const int degree : limits.tp_degrees) check.within("a TP degree of", degree, 1, kMostGpus);
  try {
    OwnLists::of(limits.lists);
  } catch (const Error& error) {
    check.fail("lists of its pipeline's schedule that cannot be used: " + std::string(error.what()));
  }
  if (limits.first) check.plan(*limits.first, model.layers);
  check.holdings(job.anchor, "anchor");
  check.holdings(job.extensions, "extensions");
  check.within("a number of unfit GPUs of", static_cast<std::int64_t>(job.unfit.size()), 0, kMostGpus);
  for (const GpuId& gpu : job.unfit) check.gpu(gpu.node, gpu.index);
  check.within("a number of GPU islands of", static_cast<std::int64_t>(job.gpu_islands.size()), 0, kMostGpus);
  for (const auto& [server, islands] : job.gpu_islands) {
    check.no_longer("a server's name", server, kLongestName);
    check.within("a number of GPUs in islands of", static_cast<std::int64_t>(islands.size()), 0, kMostGpusOfNode);
  }
  if (job.plan) check.plan(*job.plan, model.layers);
}

void check_report(const wire::Outcome& outcome) {
  const Check check(outcome.job);
  check.within("a step", outcome.step, 0, kMostSteps);
  check.within("a generation", outcome.generation, 0, std::numeric_limits<int>::max());
  if (!outcome.plan.stages.empty()) check.plan(outcome.plan, 0);
  check.within("a number of candidates of", static_cast<std::int64_t>(outcome.candidates.size()), 0, kMostCandidates);
  for (const Candidate& one : outcome.candidates)
    for (const std::string* text : {&one.plan, &one.rejected_by}) {
      check.no_longer("a candidate's text", *text, kLongestName);
      if (printable(*text) != *text) check.fail("a candidate whose text is not plain");
    }
  check.time("a pause", outcome.pause_ms);
  check.within("a number of phases of", static_cast<std::int64_t>(outcome.phases_ms.size()), 0, kMostPhases);
  for (const auto& [phase, ms] : outcome.phases_ms) {
    check.no_longer("a phase's name", phase, kLongestPhase);
    if (printable(phase) != phase) check.fail("a phase whose name is not plain text");
  }
}

// A launcher may name GPUs that its job is about to lose or has just got. Lists other than plans
// may therefore be twice as long.
void check_size(const ElasticJob& job, int most_gpus) {
  const Check check(job.id);
  if (job.plan) check.plan(*job.plan, 0, most_gpus);
  if (job.parallel.first) check.plan(*job.parallel.first, 0, most_gpus);
  if (job.profile) check.count("a profile with a number of replicas of", job.profile->replicas.size(), most_gpus);
  const std::int64_t most = 2 * std::int64_t{most_gpus};
  check.count("a number of unfit GPUs of", job.unfit.size(), most);
  std::size_t gpus = job.anchor.size() + job.extensions.size();
  check.count("a number of holdings of", gpus, most);
  gpus = 0;
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings) gpus += held.gpus.size();
  check.count("a number of held GPUs of", gpus, most);
  gpus = 0;
  for (const auto& [server, islands] : job.gpu_islands) gpus += 1 + islands.size();
  check.count("a number of GPUs in islands of", gpus, 2 * most);
}

void check_size(const wire::Outcome& outcome, int most_gpus) {
  if (!outcome.plan.stages.empty()) Check(outcome.job).plan(outcome.plan, 0, most_gpus);
}

}  // namespace espalier
