#include "planner/cli/calibrate_arguments.hpp"

#include <CLI/CLI.hpp>

#include "planner/cli/arguments.hpp"

namespace espalier::cli {

std::optional<CalibrateArguments> parse_calibrate(const std::vector<std::string>& words, std::string& help) {
  CalibrateArguments arguments;
  // Everything behind -- belongs to salloc.
  const auto end = std::find(words.begin(), words.end(), "--");
  if (end != words.end()) arguments.extra.assign(end + 1, words.end());
  CLI::App app(
      "Measures GPUs and links in an ordinary Slurm job of a few minutes, on whole nodes: some of each GPU type, and "
      "pairs of nodes at every distance. Writes calibrated.toml into the planner's state directory where this user "
      "may, else to the standard output. Options of salloc follow --.",
      "espalier calibrate");
  app.add_option("--nodes", arguments.nodes, "measure these instead, as in n[1-8]");
  app.add_option("--partition", arguments.partition, "of the job");
  app.add_option("--minutes", arguments.minutes, "time limit of the job")
      ->check(CLI::Range(1, 1440))
      ->capture_default_str();
  app.add_option("--wait", arguments.wait_seconds, "seconds to wait for the nodes")
      ->check(CLI::Range(1, 604800))
      ->capture_default_str();
  app.add_option("--program", arguments.program,
                 "espalier-train on the nodes; default: espalier-train-cuda beside this program, else espalier-train");
  app.add_option("--mpi", arguments.mpi, "how ranks are started: by srun (pmix) or by mpirun; default: what works")
      ->check(CLI::IsMember({"pmix", "mpirun"}));
  app.add_option("--output", arguments.output, "write this file instead; -: the standard output");
  app.add_flag("--dry-run", arguments.dry_run, "print what would be measured, and the job, and leave");
  app.add_flag("--json", arguments.json, "one JSON object with every measurement instead of the table");
  app.add_option("-c,--config", arguments.config, "instead of $ESPALIER_CONF or /etc/espalier/espalier.toml");
  std::vector<std::string> own(words.begin(), end);
  std::reverse(own.begin(), own.end());
  try {
    app.parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& problem) {
    throw UsageError(std::string("calibrate: ") + problem.what());
  }
  return arguments;
}

}  // namespace espalier::cli
