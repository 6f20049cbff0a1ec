// Measures in a box (a real Slurm on this machine) how well profiles of single stages foretell the steps of whole
// plans, and how much less of the GPUs' time they take.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "tests/bench/planner/commands.hpp"

namespace espalier::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  int plans = 16;
  std::uint64_t seed = 1;
  std::string root = ".";
  bool json = false;
};

constexpr int kManyGpus = 4;  // plans of so many and more are compared in GPU time

json measure(const Options& options) {
  const fs::path root = fs::absolute(options.root), box = root / "tests/cluster/box.sh";
  if (!fs::exists(box)) throw Error(box.string() + ": is not there; name the project's folder with --root");
  const fs::path folder = root / "build/bench/stage-profile", output = folder / "plans.json";
  fs::create_directories(folder);
  fs::remove(output);
  // The planner must not change the plans that are measured.
  const std::string command =
      "'" + box.string() + "' -n 2 -t h100:4 -y a100 -r 400mbit -e 'planner.cooldown_seconds = 3600' -k '" +
      (folder / "logs").string() + "' python3 '" + (root / "tests/bench/live/stage_profile.py").string() + "' " +
      std::to_string(options.plans) + " " + std::to_string(options.seed) + " '" + output.string() + "' >&2";
  if (std::system(command.c_str()) != 0)
    throw Error("the measurement failed; its logs are in " + (folder / "logs").string());
  std::ifstream file(output);
  return json::parse(file);
}

json figures_of(const json& plans) {
  double sum = 0, most = 0, signed_sum = 0, real = 0, profiled = 0, held = 0;
  int done = 0;
  for (const json& plan : plans) {
    if (!plan.contains("error_pct")) continue;
    const auto error = plan.at("error_pct").get<double>();
    sum += std::abs(error), signed_sum += error, most = std::max(most, std::abs(error)), ++done;
    if (plan.at("gpus").get<int>() < kManyGpus) continue;
    real += plan.at("real_gpu_seconds").get<double>();
    profiled += plan.at("profile_gpu_seconds").get<double>();
    held += plan.at("profile_held_seconds").get<double>();
  }
  if (done == 0) throw Error("no plan came to an end; see its lines above");
  json figures{{"plans", done},
               {"failed", plans.size() - static_cast<std::size_t>(done)},
               {"error_mean_pct", sum / done},
               {"error_max_pct", most},
               {"error_signed_mean_pct", signed_sum / done}};
  if (profiled > 0) {
    figures["gpu_time_ratio"] = real / profiled;
    figures["gpu_time_ratio_with_starts"] = real / held;
  }
  return figures;
}

void run(const Options& options) {
  const json figures = figures_of(measure(options));
  if (options.json) std::printf("%s\n", figures.dump(2).c_str());
  else
    for (const auto& [name, value] : figures.items()) std::printf("%-32s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_stage_profile(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("stage-profile",
                                         "profiles single stages of plans on one GPU each in a box of two GPU types, "
                                         "and runs the plans: predicted against "
                                         "measured steps, and GPU time");
  command->add_option("--plans", options->plans, "so many of the list in tests/bench/live/stage_profile.py")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the trainings and devices")->capture_default_str();
  command->add_option("--root", options->root, "the project's folder")->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
