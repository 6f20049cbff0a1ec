// Measures in boxes (a real Slurm on this machine) what a user gets of the planner: predictions, plans, knowledge,
// preemption.
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
  int runs = 12, cases = 6, rounds = 3;
  std::uint64_t seed = 1;
  std::vector<std::string> parts = {"predict", "known", "preempt", "calibrate", "plans", "move"};
  std::string root = ".";
  bool json = false;
};

constexpr const char* kLinks = "400mbit";  // so slow that summing gradients shows in every step

class Boxes {
 public:
  explicit Boxes(const std::string& root) : root_(fs::absolute(root)), folder_(root_ / "build/bench/live") {
    if (!fs::exists(root_ / "tests/cluster/box.sh"))
      throw Error(root_.string() + "/tests/cluster/box.sh: is not there; name the project's folder with --root");
    fs::create_directories(folder_);
  }
  // Runs a script of tests/bench/live in a box; what it left in its output file.
  json run(const std::string& part, const std::string& box_options, const std::string& script) const {
    const fs::path output = folder_ / (part + ".json");
    fs::remove(output);
    const std::string command = "'" + (root_ / "tests/cluster/box.sh").string() +
                                "' -e 'planner.poll_seconds = 1' -e 'planner.cooldown_seconds = 1' " + box_options +
                                " -k '" + (folder_ / (part + "-logs")).string() + "' " + script + " '" +
                                output.string() + "' >&2";
    if (std::system(command.c_str()) != 0)
      throw Error(part + ": the measurement failed; its logs are in " + (folder_ / (part + "-logs")).string());
    std::ifstream file(output);
    return json::parse(file);
  }
  std::string python(const std::string& script) const {
    return "python3 '" + (root_ / "tests/bench/live" / script).string() + "'";
  }
  std::string shell(const std::string& script) const {
    return "'" + (root_ / "tests/bench/live" / script).string() + "'";
  }

 private:
  fs::path root_, folder_;
};

void predict(const Boxes& boxes, const Options& options, json& figures) {
  const json runs =
      boxes.run("predict", std::string("-n 2 -r ") + kLinks + " -e 'planner.log_level = \"debug\"'",
                boxes.python("predict.py") + " " + std::to_string(options.runs) + " " + std::to_string(options.seed));
  double sum = 0, most = 0, least_communication = 100;
  int done = 0;
  for (const json& run : runs) {
    if (!run.contains("error_pct")) continue;
    const double error = std::abs(run.at("error_pct").get<double>());
    sum += error, most = std::max(most, error), ++done;
    least_communication = std::min(least_communication, run.at("communication_pct").get<double>());
  }
  if (done == 0) throw Error("predict: no run came to an end; see its lines above");
  figures["predicted_error_mean_pct"] = sum / done;
  figures["predicted_error_max_pct"] = most;
  figures["predicted_runs"] = done;
  figures["communication_min_pct"] = least_communication;
}

void plans(const Boxes& boxes, const Options& options, json& figures) {
  const json cases = boxes.run(
      "plans", std::string("-n 2 -r ") + kLinks + " -e 'planner.log_level = \"debug\"' -e 'planner.plan_trials = 3'",
      boxes.python("plans.py") + " " + std::to_string(options.cases) + " " + std::to_string(options.seed));
  double sum = 0, least = 1;
  int done = 0;
  for (const json& one : cases) {
    if (!one.contains("ratio")) continue;
    const double ratio = one.at("ratio").get<double>();
    sum += ratio, least = std::min(least, ratio), ++done;
  }
  if (done == 0) throw Error("plans: no case came to an end; see its lines above");
  figures["chosen_over_best_mean"] = sum / done;
  figures["chosen_over_best_min"] = least;
  figures["chosen_cases"] = done;
}

void run(const Options& options) {
  const Boxes boxes(options.root);
  json figures = json::object();
  for (const std::string& part : options.parts) {
    if (part == "predict") predict(boxes, options, figures);
    if (part == "plans") plans(boxes, options, figures);
    if (part == "known")
      figures.update(boxes.run("known", "-n 2 -e 'planner.log_level = \"debug\"'", boxes.python("known.py")));
    if (part == "preempt")
      figures.update(boxes.run("preempt", "-n 4 -g 2 -e 'planner.log_level = \"debug\"'",
                               boxes.python("preempt.py") + " " + std::to_string(options.rounds)));
    if (part == "move")
      figures.update(boxes.run("move", "-n 4 -y a100 -e 'planner.log_level = \"debug\"'",
                               boxes.python("move.py") + " " + std::to_string(2 * options.rounds)));
    if (part == "calibrate") figures.update(boxes.run("calibrate", "-n 4 -g 2", boxes.shell("calibrate.sh")));
  }
  if (options.json) std::printf("%s\n", figures.dump(2).c_str());
  else
    for (const auto& [name, value] : figures.items()) std::printf("%-32s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_live(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "live", "runs trainings in boxes: predicted against measured steps, the chosen plan against all, what is kept");
  command->add_option("--parts", options->parts, "of the measurement, by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"predict", "known", "preempt", "calibrate", "plans", "move"}))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "of predict: trainings")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--cases", options->cases, "of plans: trainings")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      ->add_option("--rounds", options->rounds,
                   "of preempt: each preempts 1, 2 and 3 extensions; of move: each moves to the other type and back")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the trainings and devices")->capture_default_str();
  command->add_option("--root", options->root, "the project's folder")->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
