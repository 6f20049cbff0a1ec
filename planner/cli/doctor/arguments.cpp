#include "planner/cli/doctor/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "planner/cli/arguments.hpp"

namespace espalier::cli::doctor {

std::optional<Arguments> parse_arguments(const std::vector<std::string>& words, std::string& help) {
  Arguments arguments;
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
  app.footer("Exit status: 0 no fault, 1 faults, 2 wrong usage.");
  std::vector<std::string> own(words);
  std::reverse(own.begin(), own.end());
  try {
    app.parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& problem) {
    throw UsageError(std::string("doctor: ") + problem.what());
  }
  if (administrator || user) arguments.administrator = administrator;
  return arguments;
}

}  // namespace espalier::cli::doctor
