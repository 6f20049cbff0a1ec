#include "tests/bench/planner/versus.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "planner/core/solver/from_scratch.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/incremental_plan.hpp"
#include "tests/bench/planner/stopwatch.hpp"

namespace espalier::bench {
namespace {

constexpr int kNodeGpus = 8;

struct Options {
  std::string model = "llama2-13b";
  int from = 16, to = 64, step = 1;
  VersusLimits limits{8, 5'000'000};
  bool json = false;
};

void run(const Options& options) {
  const PaperJob& job = paper_job(options.model);
  std::vector<int> counts;
  for (int gpus = std::max(options.from, job.gpus()); gpus <= options.to; gpus += options.step) counts.push_back(gpus);
  if (counts.empty())
    throw Error("--to: " + options.model + " runs on " + std::to_string(job.gpus()) + " GPUs at least");
  const auto print = [&](const VersusRow& row) {
    if (options.json) return;
    std::printf("%4d GPUs: planner %10.2f ms, best %10.2f ms%s, ratio %.4f, planned in %.1f ms (CPU %.1f)\n", row.gpus,
                row.planner, row.best, row.proven ? " (proven)" : "", row.best / row.planner, row.plan_ms,
                row.plan_cpu_ms);
    std::fflush(stdout);
  };
  double least = 1, sum = 0, longest = 0, longest_cpu = 0;
  int proven = 0;
  const auto rows = measure_versus(job, counts, options.limits, print);
  for (const VersusRow& row : rows) {
    least = std::min(least, row.best / row.planner);
    sum += row.best / row.planner;
    longest = std::max(longest, row.plan_ms);
    longest_cpu = std::max(longest_cpu, row.plan_cpu_ms);
    proven += row.proven;
  }
  const nlohmann::ordered_json json{{"model", job.model},     {"from", counts.front()},
                                    {"to", counts.back()},    {"counts", counts.size()},
                                    {"min_ratio", least},     {"mean_ratio", sum / static_cast<double>(rows.size())},
                                    {"max_plan_ms", longest}, {"max_plan_cpu_ms", longest_cpu},
                                    {"proven", proven}};
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  else
    std::printf("ratio: mean %.4f, min %.4f; longest call of the planner %.1f ms (CPU %.1f); %d of %zu proven\n",
                sum / static_cast<double>(rows.size()), least, longest, longest_cpu, proven, rows.size());
}

}  // namespace

PlanSketch default_plan(Evaluator& evaluator, const PaperJob& job) {
  PlanSketch plan;
  int next = 0;
  for (int s = 0; s < job.pp; ++s) {
    StageSketch& stage = plan.stages.emplace_back();
    stage.tp = job.tp;
    for (int left = job.dp * job.tp; left > 0;) {
      const int taken = std::min(left, kNodeGpus - next % kNodeGpus);
      stage.pieces.push_back({next / kNodeGpus, 0, static_cast<std::int16_t>(taken)});
      next += taken;
      left -= taken;
    }
  }
  if (!evaluator.balance_sketch(plan).feasible())
    throw Error(std::string(job.model) + ": its default plan does not fit");
  return plan;
}

std::vector<VersusRow> measure_versus(const PaperJob& job, const std::vector<int>& counts, const VersusLimits& limits,
                                      const std::function<void(const VersusRow&)>& seen) {
  const int nodes = (counts.back() + kNodeGpus - 1) / kNodeGpus;
  const Site site = paper_cluster(nodes, nodes);
  const JobCoefficients coefficients = paper_coefficients(job, paper_batch(job), site.hardware);
  PlanBounds bounds;
  bounds.lead_node = 0;
  Evaluator evaluator({site.hardware, site.topology, coefficients, bounds});

  std::vector<NodeGpus> held_gpus, idle_gpus;
  std::vector<Piece> held;
  for (int gpu = 0; gpu < nodes * kNodeGpus; ++gpu) {
    const bool ours = gpu < job.gpus();
    auto& lists = ours ? held_gpus : idle_gpus;
    if (lists.empty() || lists.back().node != gpu / kNodeGpus) lists.push_back({gpu / kNodeGpus, {}});
    lists.back().gpus.push_back(static_cast<std::int16_t>(gpu % kNodeGpus));
    const Piece piece{gpu / kNodeGpus, 0, 1};
    if (ours) held = with_units(std::move(held), std::span(&piece, 1));
  }
  std::vector<Piece> offers;
  for (const GpuAt& gpu : affinity_order(site.hardware, site.topology, held_gpus, idle_gpus))
    offers.push_back({gpu.node, gpu.type, 1});

  PlanSketch present = default_plan(evaluator, job);
  std::size_t taken = 0;
  std::vector<VersusRow> rows;
  for (const int count : counts) {
    VersusRow row;
    row.gpus = count;
    const auto units = std::span(offers).subspan(taken, static_cast<std::size_t>(count - job.gpus()) - taken);
    const Stopwatch planning;
    const Solution plan = incremental_plan(evaluator, present, held, units);
    row.plan_ms = planning.wall_ms();
    row.plan_cpu_ms = planning.cpu_ms();
    row.planner = row.best = plan.ms;
    present = plan.sketch;
    held = with_units(std::move(held), units);
    taken += units.size();

    const Stopwatch searching;
    const auto late = [&] { return searching.wall_ms() > 1000 * limits.seconds; };
    const FromScratchResult scratch = plan_from_scratch(evaluator, held, {limits.labels, late}, row.planner);
    if (scratch.best) row.best = scratch.best->ms;
    row.proven = scratch.complete;
    seen(row);
    rows.push_back(row);
  }
  return rows;
}

void add_versus(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("versus",
                                         "A job of the paper's grows GPU by GPU: throughput of the planner's plan, "
                                         "found from the one before, over that of "
                                         "the best plan that a long search from scratch finds.");
  command->add_option("--model", options->model, "one of the paper's jobs")->capture_default_str();
  command->add_option("--from", options->from, "GPUs")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--to", options->to, "GPUs")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--step", options->step, "GPUs")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--seconds", options->limits.seconds, "at most, for each search from scratch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--labels", options->limits.labels, "work at most, of each search from scratch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
