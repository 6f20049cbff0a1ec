#include "torchrt/standalone.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "torchrt/metrics.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

Plan standalone_plan(const Config& config, const std::string& plan_path, int ranks) {
  if (!plan_path.empty()) {
    std::ifstream in(plan_path);
    if (!in) throw Error("plan file " + plan_path + ": cannot be read");
    try {
      return Json::parse(in).get<Plan>();
    } catch (const std::exception& problem) {
      throw Error("plan file " + plan_path + ": " + problem.what());
    }
  }
  if (ranks > config.model.layers)
    throw Error(config.path + ": " + std::to_string(config.model.layers) + " layers cannot fill " +
                std::to_string(ranks) + " pipeline stages; start at most " + std::to_string(config.model.layers) +
                " ranks or raise model.layers");
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  std::vector<GpuId> gpus;
  for (int i = 0; i < ranks; ++i) gpus.push_back({host, i});
  return uniform_plan(ranks, 1, config.model.layers, config.training.global_batch, config.training.micro_batches, gpus);
}

namespace {

struct Run {
  std::unique_ptr<Device> device;
  std::unique_ptr<Data> data;
  std::unique_ptr<RankState> state;
  std::optional<Metrics> metrics;
};

Run prepare(const Config& config, const std::string& plan_path, World& world) {
  Run run;
  const Plan plan = standalone_plan(config, plan_path, world.size());
  run.data = std::make_unique<Data>(config.data_path, config.model.sequence, config.training.seed);
  run.device = make_device(world.local_rank());
  run.state = std::make_unique<RankState>(config, plan, world, *run.device, *run.data);
  for (const int unit : run.state->units()) run.state->allocate(unit);
  run.state->initialise();
  if (world.rank() == 0)
    run.metrics.emplace(config.metrics_path, true, 0, plan.gpu_count(), describe(plan), config.progress_every,
                        config.training.steps);
  return run;
}

void complain(const World& world, const std::string& problem) {
  std::fprintf(stderr, "espalier: train: rank %d: %s\n", world.rank(), problem.c_str());
}

void train(const Config& config, Run& run) {
  using Clock = std::chrono::steady_clock;
  run.state->build();
  run.state->rehearse();
  const double tokens = static_cast<double>(config.training.global_batch) * config.model.sequence;
  for (std::int64_t step = 1; step <= config.training.steps; ++step) {
    const Clock::time_point start = Clock::now();
    const StepOutcome outcome = run.state->step(step, [] { return false; });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (run.metrics) run.metrics->record({step, outcome.loss, seconds, tokens / seconds});
  }
}

}  // namespace

int train_standalone(const Config& config, const std::string& plan_path, World& world) {
  prepare_torch();
  Run run;
  std::string problem;
  try {
    run = prepare(config, plan_path, world);
  } catch (const Error& error) {
    problem = error.what();
  }
  // Usually all ranks fail alike: the first that did speaks for all.
  const std::vector<double> failed = world.gather_all({problem.empty() ? 0.0 : 1.0});
  const auto first = std::find(failed.begin(), failed.end(), 1.0);
  if (first != failed.end()) {
    if (first - failed.begin() == world.rank()) complain(world, problem);
    world.finalize();
    return 1;
  }
  try {
    train(config, run);
  } catch (const Error& error) {
    complain(world, error.what());
    world.abort();
  }
  run = Run();
  world.finalize();
  return 0;
}

}  // namespace espalier::torchrt
