// Measures the cost of a hand-off with real trainings. A box of three nodes with shaped links grows
// 2 -> 3 GPUs and shrinks back.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/pause_figures.hpp"

namespace espalier::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string method, rate = "10gbit", root = ".", folder;
  std::int64_t state_bytes = 0;
  int rounds = 3;
  bool early = true, json = false;
};

// Quotes text for the shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

void run(const Options& options) {
  const fs::path root = fs::absolute(options.root), box = root / "tests/cluster/box.sh";
  if (!fs::exists(box)) throw Error(box.string() + ": is not there; name the project's folder with --root");
  const fs::path folder =
      fs::absolute(options.folder.empty() ? root / "build/bench/pause" / options.method : fs::path(options.folder));
  fs::remove_all(folder);
  fs::create_directories(folder);
  const torchrt::ModelConfig model = pause_model(options.state_bytes);
  // The box's planner decides at once. Its own traffic on the links is negligible.
  std::string command =
      quoted(box) + " -n 3 -g 1 -r " + quoted(options.rate) + " -k " + quoted(folder / "logs") +
      " -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'launch.switch_seconds = 300'" +
      " -e 'launch.start_seconds = 300' " + quoted(root / "tests/bench/pause/measure.sh") + " " + quoted(folder) + " " +
      options.method + " " + std::to_string(options.rounds);
  if (!options.early) command += " --set handoff.early=false";
  for (const std::string& setting : pause_settings(model)) command += " --set " + quoted(setting);
  if (std::system((command + " >&2").c_str()) != 0)
    throw Error("the measurement failed; its logs are in " + (folder / "logs").string());
  nlohmann::json figures = pause_figures(folder);
  figures["method"] = options.method;
  figures["early"] = options.early;
  figures["state_bytes"] = pause_state_bytes(model);
  figures["link_rate"] = options.rate;
  fs::remove_all(folder / "checkpoints");
  if (options.json) std::printf("%s\n", figures.dump(2).c_str());
  else
    for (const auto& [name, value] : figures.items()) std::printf("%-24s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_pause(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "pause", "trains in a box of three nodes, grows from 2 to 3 GPUs and shrinks back: how long training stands");
  command->add_option("--method", options->method, "of the hand-off (handoff.method of espalier-train)")
      ->required()
      ->check(CLI::IsMember({"adopt", "device", "overlap", "checkpoint"}));
  command->add_flag("!--no-early", options->early, "send nothing before the pause (handoff.early = false)");
  command->add_option("--state-bytes", options->state_bytes, "the model's parameters and moments, at least")
      ->required()
      ->check(CLI::Range(std::int64_t{1} << 20, std::int64_t{1} << 36));
  command->add_option("--rounds", options->rounds, "grows; figures are medians")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--link", options->rate, "rate of every node's link, as tc has it")->capture_default_str();
  command->add_option("--root", options->root, "the project's folder")->capture_default_str();
  command->add_option("--folder", options->folder, "for what is measured, on a disk (build/bench/pause/METHOD)");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
