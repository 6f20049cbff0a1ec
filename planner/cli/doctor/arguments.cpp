#include "planner/cli/doctor/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "planner/cli/arguments.hpp"

namespace espalier::cli::doctor {

std::optional<Arguments> parse_arguments(const std::vector<std::string>& words, std::string& help) {
  Arguments arguments;
  // Everything behind -- belongs to salloc.
  const auto end = std::find(words.begin(), words.end(), "--");
  if (end != words.end()) arguments.job.extra.assign(end + 1, words.end());
  bool administrator = false, user = false;
  CLI::App app("Checks this site for what Espalier needs, changes nothing, and says what to change.",
               "espalier doctor");
  auto* const admin_flag =
      app.add_flag("--admin", administrator, "the checks of an administrator; default for root and SlurmUser");
  app.add_flag("--user", user, "only what matters to a user, and can be seen by one; default for others")
      ->excludes(admin_flag);
  auto* const json_flag = app.add_flag("--json", arguments.json, "one JSON object");
  app.add_flag("--fix-plan", arguments.fix_plan, "only the lines to add, by file")->excludes(json_flag);
  app.add_option("-c,--config", arguments.config, "instead of $ESPALIER_CONF or /etc/espalier/espalier.toml");
  auto* const run_flag = app.add_flag("--run", arguments.run, "also run an elastic job of less than a minute");
  app.add_option("--partition", arguments.job.partition, "of that job")->needs(run_flag);
  app.add_option("--gres", arguments.job.gres, "that it asks for")->needs(run_flag)->capture_default_str();
  app.add_option("--wait", arguments.job.wait_seconds, "seconds to wait for its start")
      ->needs(run_flag)
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  app.add_option("--dir", arguments.job.folder, "where its files go, which its node must see, too; default: $HOME")
      ->needs(run_flag);
  app.add_option("--program", arguments.job.program,
                 "espalier-toy or espalier-train on the nodes; default: the espalier-toy beside this program")
      ->needs(run_flag);
  app.footer("Options of salloc for the job of --run follow --. Exit status: 0 no fault, 1 faults, 2 wrong usage.");
  std::vector<std::string> own(words.begin(), end);
  std::reverse(own.begin(), own.end());
  try {
    app.parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& problem) {
    throw UsageError(std::string("doctor: ") + problem.what());
  }
  if (!arguments.job.extra.empty() && !arguments.run) throw UsageError("doctor: --: options of salloc need --run");
  if (administrator || user) arguments.administrator = administrator;
  return arguments;
}

}  // namespace espalier::cli::doctor
