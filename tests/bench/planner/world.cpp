// Measures how soon the ranks of a generation have MPI initialised, in a box.
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
  int ranks = 8, nodes = 3, rounds = 6;
  std::string root = ".";
  bool json = false;
};

void run(const Options& options) {
  const fs::path root = fs::absolute(options.root), box = root / "tests/cluster/box.sh";
  if (!fs::exists(box)) throw Error(box.string() + ": is not there; name the project's folder with --root");
  const fs::path folder = root / "build/bench/world";
  fs::create_directories(folder);
  const fs::path output = folder / "figures.json";
  const std::string command = "'" + box.string() + "' -d -n " + std::to_string(options.nodes) + " -k '" +
                              (folder / "logs").string() + "' '" + (root / "tests/bench/world/measure.sh").string() +
                              "' " + std::to_string(options.ranks) + " " + std::to_string(options.nodes) + " " +
                              std::to_string(options.rounds) + " '" + output.string() + "' >&2";
  if (std::system(command.c_str()) != 0)
    throw Error("the measurement failed; its logs are in " + (folder / "logs").string());
  std::ifstream file(output);
  const auto figures = nlohmann::json::parse(file);
  if (options.json) std::printf("%s\n", figures.dump(2).c_str());
  else
    for (const auto& [name, value] : figures.items()) std::printf("%-26s %s\n", name.c_str(), value.dump().c_str());
}

}  // namespace

void add_world(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "world",
      "starts MPI worlds in a box: how soon MPI is initialised on rank servers, against mpirun with an srun agent");
  command->add_option("--ranks", options->ranks, "of each world")->check(CLI::Range(2, 64))->capture_default_str();
  command->add_option("--nodes", options->nodes, "of the box")->check(CLI::Range(1, 16))->capture_default_str();
  command->add_option("--rounds", options->rounds, "each starts one world of each kind; figures are medians")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--root", options->root, "the project's folder")->capture_default_str();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace espalier::bench
