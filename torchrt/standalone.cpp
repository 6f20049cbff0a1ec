#include "torchrt/standalone.hpp"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/in_chunks.hpp"
#include "planner/core/json.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/core/text_limits.hpp"
#include "torchrt/agreed_error.hpp"
#include "torchrt/model/prepare_torch.hpp"
#include "torchrt/schedule/must_fit.hpp"
#include "torchrt/schedule_options.hpp"
#include "torchrt/training.hpp"

namespace espalier::torchrt {

namespace {

// Without a planner, "auto" is the schedule that is best on equal stages.
Plan in_form(Plan plan, const Config& config) {
  if (config.training.schedule != kAutomaticSchedule) return in_chunks(std::move(plan), config.parallel.limits);
  if (!plan.schedule.empty()) return plan;
  const int stages = static_cast<int>(plan.stages.size());
  return with_form(std::move(plan),
                   best_on_equal_stages(forms_of(kAutomaticSchedule, 0, false), stages, config.training.micro_batches));
}

}  // namespace

Plan standalone_plan(const Config& config, const std::string& plan_path, int ranks) {
  if (!plan_path.empty()) {
    std::ifstream in = open_input(plan_path);
    if (!in) throw Error("plan file " + plan_path + ": cannot be read");
    try {
      return in_form(parse_json(in).get<Plan>(), config);
    } catch (const std::exception& problem) {
      throw Error("plan file " + plan_path + ": " + problem.what());
    }
  }
  const ParallelLimits& wanted = config.parallel.limits;
  if (wanted.first) return in_form(*wanted.first, config);
  const int tp = std::max(1, wanted.tp), rest = ranks / tp;
  const int pp = wanted.pp > 0 ? wanted.pp : wanted.dp > 0 ? rest / wanted.dp : rest;
  const int dp = wanted.dp > 0 ? wanted.dp : std::max(1, rest / std::max(1, pp));
  if (pp * dp * tp != ranks)
    throw Error(config.path + ": [parallel] asks for pp=" + std::to_string(wanted.pp) +
                " dp=" + std::to_string(wanted.dp) + " tp=" + std::to_string(wanted.tp) + " (0: free), which " +
                std::to_string(ranks) + " ranks cannot make; start as many as their product");
  if (pp > config.model.blocks())
    throw Error(config.path + ": " + std::to_string(config.model.blocks()) + " layers cannot fill " +
                std::to_string(pp) + " pipeline stages; start at most " + std::to_string(config.model.blocks()) +
                " ranks, raise model.layers, or set dp or tp in [parallel]");
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  std::vector<GpuId> gpus;
  for (int i = 0; i < ranks; ++i) gpus.push_back({host, i});
  const int micro_batches = wanted.micro_batches > 0 ? wanted.micro_batches : config.training.micro_batches;
  return in_form(uniform_plan(pp, dp, config.model.blocks(), config.training.global_batch, micro_batches, gpus, tp),
                 config);
}

namespace {

struct Run {
  std::unique_ptr<Device> device;
  std::unique_ptr<RankState> state;
  std::unique_ptr<Training> training;
  std::int64_t done = 0;  // the last step before this run
};

// Does everything that a rank does alone, so that it may fail alone.
void prepare(Config& config, const std::string& plan_path, World& world, Run& run) {
  const Plan plan = standalone_plan(config, plan_path, world.size());
  config.parallel.limits.tp = plan.stages.front().tp;
  must_fit(schedule_options(config, plan), make_layout(plan, config.model.blocks()));
  run.device = make_device(std::nullopt, world.local_rank());
  run.state = std::make_unique<RankState>(config, plan, world, *run.device);
  for (const int unit : run.state->units()) run.state->allocate(unit);
  run.training = std::make_unique<Training>(config, world, *run.device, *run.state, 0);
}

void complain(const World& world, const std::string& problem) {
  std::fprintf(stderr, "espalier: train: rank %d: %s\n", world.rank(), problem.c_str());
}

// Only the lowest rank with an error reports it, because usually all ranks fail alike. True when no
// rank failed.
template <class Work>
bool together(World& world, const Work& work) {
  std::string problem;
  try {
    work();
  } catch (const Error& error) {
    problem = error.what();
  }
  const int first = world.minimum(problem.empty() ? INT_MAX : world.rank());
  if (first == world.rank()) complain(world, problem);
  return first == INT_MAX;
}

void train(const Config& config, World& world, Run& run, bool checksum) {
  run.state->build();
  run.state->rehearse(run.training->data());
  for (std::int64_t step = run.done + 1; step <= config.training.steps; ++step) {
    run.training->step(
        step, [] { return false; }, [] { return true; });
    run.training->after_step(step, {});
  }
  run.training->finish();
  if (!checksum) return;
  const std::uint64_t sum = run.state->checksum();
  if (world.rank() == 0) std::printf("weights %016llx\n", static_cast<unsigned long long>(sum));
}

}  // namespace

int train_standalone(const Config& given, const StandaloneOptions& options, World& world) {
  Config config = given;
  prepare_torch(config.training.threads);
  Run run;
  const bool ready = together(world, [&] { prepare(config, options.plan, world, run); }) && together(world, [&] {
                       run.state->connect();
                       run.done = run.training->start();
                       if (world.rank() == 0) run.training->open_metrics(run.done);
                     });
  if (!ready) {
    world.finalize();
    return 1;
  }
  try {
    train(config, world, run, options.checksum);
  } catch (const AgreedError& error) {
    if (world.rank() == 0) complain(world, error.what());
    world.finalize();
    return 1;
  } catch (const Error& error) {
    complain(world, error.what());
    world.abort();
  }
  run = Run();
  world.finalize();
  return 0;
}

}  // namespace espalier::torchrt
