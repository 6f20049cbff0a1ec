// espalier-train: trains a model as described by a configuration, alone under mpirun or as a worker of a launcher.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "planner/core/stage_profile_json.hpp"
#include "planner/core/standard_output.hpp"
#include "torchrt/comm/world.hpp"
#include "torchrt/description.hpp"
#include "torchrt/export.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/model/prepare_torch.hpp"
#include "torchrt/open_files.hpp"
#include "torchrt/probe/probe.hpp"
#include "torchrt/profile_stage.hpp"
#include "torchrt/schedule/must_fit.hpp"
#include "torchrt/schedule_file.hpp"
#include "torchrt/schedule_options.hpp"
#include "torchrt/spare.hpp"
#include "torchrt/standalone.hpp"
#include "torchrt/worker.hpp"

namespace {

using namespace espalier;
using namespace espalier::torchrt;

struct Arguments {
  std::string config, plan, schedule, metrics, data, export_folder, export_from, calibrate;
  std::int64_t steps = 0;
  int keep = 0;
  std::vector<std::string> overrides;
  int print_schedule = 0;
  bool checksum = false, describe = false;
  std::string profile_plan;
  StageChoice profiled;
  UnitRounds rounds;
};

// A launcher looks for this text in a program before it starts it with --describe
// (launcher/process/description.hpp).
[[gnu::used]] const char kDescribes[] = "espalier: describes itself";
[[gnu::used]] const char kProfiles[] = "espalier: profiles stages";

// Before MPI starts, every rank finds the same mistakes; one says so.
bool first_rank() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr || std::string(rank) == "0";
}

void complain(const char* what) { std::fprintf(stderr, "espalier: train: %s\n", what); }

// As TOML writes a string, so that a file called 7 is not taken for a number.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

Config configure(const Arguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (arguments.steps > 0) overrides.push_back("training.steps=" + std::to_string(arguments.steps));
  if (arguments.keep > 0) overrides.push_back("checkpoint.keep=" + std::to_string(arguments.keep));
  if (!arguments.metrics.empty()) overrides.push_back("metrics.path=" + quoted(arguments.metrics));
  if (!arguments.data.empty()) overrides.push_back("data.path=" + quoted(arguments.data));
  Config config = load_config(arguments.config, overrides);
  if (!arguments.schedule.empty()) use_schedule_file(config, arguments.schedule);
  return config;
}

int calibrate(const std::string& text, int argc, char** argv) {
  const ProbeRequest request = probe_request(text);
  World world(&argc, &argv);
  try {
    return run_probe(request, world);
  } catch (const std::exception& problem) {
    complain(("rank " + std::to_string(world.rank()) + ": " + problem.what()).c_str());
    world.abort();
  }
}

int profile(const Arguments& arguments, const Config& config) {
  const Plan plan = standalone_plan(config, arguments.profile_plan, 0);
  prepare_torch(config.training.threads);
  const std::unique_ptr<Device> device = make_device(std::nullopt, 0);
  const StageProfile found = profile_stage(config, plan, arguments.profiled, *device, arguments.rounds);
  std::printf("%s\n", stage_profile_json(found).dump(2).c_str());
  flush_standard_output();
  return 0;
}

int run(const Arguments& arguments, int argc, char** argv) {
  if (!arguments.calibrate.empty()) return calibrate(arguments.calibrate, argc, argv);
  const Config config = configure(arguments);
  if (arguments.describe) {
    std::printf("%s\n", wire::to_frame(description(config)).body.dump().c_str());
    flush_standard_output();
    return 0;
  }
  if (!arguments.profile_plan.empty()) return profile(arguments, config);
  if (!arguments.export_folder.empty()) {
    export_model(config, arguments.export_from, arguments.export_folder);
    flush_standard_output();
    return 0;
  }
  if (arguments.print_schedule > 0) {
    const Plan plan = standalone_plan(config, arguments.plan, arguments.print_schedule);
    const Layout layout = make_layout(plan, config.model.blocks());
    const ScheduleOptions options = schedule_options(config, plan);
    must_fit(options, layout);
    const Schedule schedule = make_schedule(layout, options);
    std::printf("%s\n%s", describe(plan).c_str(), describe(schedule).c_str());
    flush_standard_output();
    return 0;
  }
  const std::optional<WorkerEnvironment> environment = worker_environment();
  if (environment) {
    shield_worker();
    return run_worker(config, *environment, &argc, &argv, arguments.checksum);
  }
  World world(&argc, &argv);
  return train_standalone(config, {arguments.plan, arguments.checksum}, world);
}

// What CLI11 prints for --help and --version.
int leave(const CLI::App& app, const CLI::ParseError& asked) {
  const int code = app.exit(asked);
  try {
    flush_standard_output();
  } catch (const std::exception& problem) {
    if (first_rank()) complain(problem.what());
    return 1;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  wait_as_spare();
  allow_many_files();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a checkpoint beyond the limit is an error like any other
  Arguments arguments;
  CLI::App app("Trains language models in pipeline, data and tensor parallelism, elastically.", "espalier-train");
  app.set_version_flag("--version", "espalier-train " ESPALIER_VERSION);
  CLI::Option* config = app.add_option("config", arguments.config, "training configuration (TOML)");
  app.add_option("--set", arguments.overrides, "section.key=value, wins over the file; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--steps", arguments.steps, "short for --set training.steps=N")
      ->check(CLI::Range(std::int64_t{1}, kMostSteps));
  app.add_option("--data", arguments.data, "short for --set data.path=FILE");
  app.add_option("--metrics", arguments.metrics, "short for --set metrics.path=FILE");
  app.add_flag("--checksum", arguments.checksum,
               "print a checksum of the weights at the end; under a launcher, on both sides of every hand-off");
  app.add_flag("--describe", arguments.describe,
               "print model, steps and [parallel] as JSON and leave: the launcher asks so before it plans");
  app.add_option("--keep", arguments.keep, "short for --set checkpoint.keep=N")->check(CLI::Range(1, 1'000'000));
  CLI::Option* plan =
      app.add_option("--plan", arguments.plan, "plan (JSON) of a run without launcher; default: a uniform pipeline");
  CLI::Option* schedule =
      app.add_option("--schedule", arguments.schedule,
                     "pipeline schedule of plans that it fits (CSV as torch.distributed.pipelining writes it)");
  CLI::Option* exported = app.add_option("--export", arguments.export_folder,
                                         "write the newest checkpoint as a Hugging Face model into this folder");
  app.add_option("--from", arguments.export_from, "the checkpoint to export")->needs(exported);
  app.add_option("--calibrate", arguments.calibrate,
                 "measure GPUs and links instead of training, as this JSON asks; espalier calibrate starts it so")
      ->excludes(config);
  app.add_option("--print-schedule", arguments.print_schedule, "print the operations of N ranks and leave")
      ->check(CLI::Range(1, 1 << 20));
  CLI::Option* profiled =
      app.add_option("--profile-plan", arguments.profile_plan,
                     "measure one stage of this plan (JSON) on this device alone, print JSON and leave")
          ->excludes(plan)
          ->excludes(schedule)
          ->excludes(exported);
  CLI::Option* stage =
      app.add_option("--stage", arguments.profiled.stage, "the stage to measure, from 0")->needs(profiled);
  profiled->needs(stage);
  app.add_option("--replica", arguments.profiled.replica, "of the stage; default: the one with the largest share")
      ->needs(profiled);
  app.add_option("--profile-warmup", arguments.rounds.warmup, "micro-batches of each unit before it is timed")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str()
      ->needs(profiled);
  app.add_option("--profile-steps", arguments.rounds.timed, "timed micro-batches of each unit")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs(profiled);
  try {
    app.parse(argc, argv);
    if (arguments.config.empty() && arguments.calibrate.empty()) throw CLI::RequiredError("config");
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return leave(app, problem);
    if (first_rank()) std::fprintf(stderr, "espalier: train: %s; see --help\n", problem.what());
    return 2;
  }
  try {
    return run(arguments, argc, argv);
  } catch (const std::exception& problem) {
    if (first_rank()) complain(problem.what());
    // mpirun ends all ranks at the first that fails, and the first has the word.
    else std::this_thread::sleep_for(std::chrono::seconds(1));
    return 1;
  }
}
