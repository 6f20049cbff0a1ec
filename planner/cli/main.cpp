// espalier: the tool of users and administrators. This file chooses the subcommand and turns errors
// into messages and exit codes.
#include <cstdio>

#include "planner/cli/commands.hpp"
#include "planner/core/standard_output.hpp"

namespace {

using namespace espalier;

std::string run(const cli::Arguments& arguments) {
  if (arguments.help) return arguments.plans() ? cli::kPlanUsage : cli::kUsage;
  if (arguments.version) return "espalier " ESPALIER_VERSION "\n";
  if (arguments.words.empty()) throw cli::UsageError("no command given");
  const std::string& command = arguments.words[0];
  const auto known = [&](auto function) { return function(arguments, wire::load_config(arguments.config)); };
  if (command == "show") return known(cli::show);
  if (command == "explain") return known(cli::explain);
  if (command == "hold" || command == "release" || command == "reclaim" || command == "migrate")
    return known(cli::control);
  if (command == "forget") return known(cli::forget);
  if (command == "usage") return known(cli::usage);
  if (command == "ping") return known(cli::ping);
  if (command == "plan") return cli::plan(arguments);
  for (const char* own : {"calibrate", "doctor", "profile", "schedule", "simulate"})
    if (command == own)
      throw cli::UsageError(command + ": its options come behind it: espalier " + command + " [OPTION...]");
  throw cli::UsageError(command + ": no such command");
}

// "simulate ": the command has options of its own, and a text that tells them.
std::string with_own_help(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  for (const char* own : {"calibrate", "doctor", "plan", "profile", "schedule", "simulate"})
    if (command == own) return command + " ";
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const std::string command = words.empty() ? "" : words.front();
    if (command == "doctor") {
      const int code = cli::run_doctor({words.begin() + 1, words.end()});
      flush_standard_output();
      return code;
    }
    if (command == "profile") cli::profile({words.begin() + 1, words.end()});
    const std::string text = command == "simulate"    ? cli::simulate({words.begin() + 1, words.end()})
                             : command == "schedule"  ? cli::schedule({words.begin() + 1, words.end()})
                             : command == "calibrate" ? cli::calibrate({words.begin() + 1, words.end()})
                                                      : run(cli::parse_arguments(words));
    std::fputs(text.c_str(), stdout);
    flush_standard_output();
    return 0;
  } catch (const cli::UsageError& error) {
    std::fprintf(stderr, "espalier: %s; see espalier %s--help\n", error.what(), with_own_help(argc, argv).c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier: %s\n", error.what());
    return 1;
  }
}
