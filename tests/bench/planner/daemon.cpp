// Measures espalierd with a large cluster and thousands of launchers, in a box.
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

struct Options {
  int gpus = 16384, launchers = 5000, seconds = 60;
  double questions = 100, churn = 1;
  unsigned seed = 1;
  std::string root = ".";
  bool json = false;
};

void run(const Options& options) {
  const fs::path root = fs::absolute(options.root), box = root / "tests/cluster/box.sh";
  if (!fs::exists(box)) throw Error(box.string() + ": is not there; name the project's folder with --root");
  const fs::path folder = root / "build/bench/daemon";
  fs::create_directories(folder);
  const fs::path output = folder / "figures.json";
  fs::remove(output);
  const std::string command =
      "'" + box.string() + "' -d -n 1 -e 'planner.topology_file = \"/run/box/share/topology.conf\"' -k '" +
      (folder / "logs").string() + "' '" + (root / "tests/bench/daemon/measure.sh").string() + "' --gpus " +
      std::to_string(options.gpus) + " --launchers " + std::to_string(options.launchers) + " --seconds " +
      std::to_string(options.seconds) + " --questions " + std::to_string(options.questions) + " --churn " +
      std::to_string(options.churn) + " --seed " + std::to_string(options.seed) + " --output '" + output.string() +
      "' >&2";
  if (std::system(command.c_str()) != 0)
    throw Error("the measurement failed; its logs are in " + (folder / "logs").string());
  std::ifstream file(output);
  const auto figures = nlohmann::json::parse(file);
  if (options.json) std::printf("%s\n", figures.dump(2).c_str());
  else
    for (const auto& [name, value] : figures.items()) std::printf("%-26s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_daemon(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "daemon",
      "runs espalierd in a box with thousands of launchers: CPU, memory, delay of decisions, and how it comes back");
  command->add_option("--gpus", options->gpus, "of the cluster, 8 a node; a multiple of 8")
      ->check(CLI::Range(64, 32768))
      ->capture_default_str();
  command->add_option("--launchers", options->launchers, "one a job; a job has 3 GPUs in the mean")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "of the measurement")
      ->check(CLI::Range(5, 3600))
      ->capture_default_str();
  command->add_option("--questions", options->questions, "that users ask each second")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  command->add_option("--churn", options->churn, "jobs that end, and that are submitted, each second")
      ->check(CLI::Range(0.01, 10.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the jobs' comings and goings")->capture_default_str();
  command->add_option("--root", options->root, "the project's folder")->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
