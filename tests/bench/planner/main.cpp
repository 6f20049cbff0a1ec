// espalier-bench measures the planner's parts and the hand-off. Each question has a subcommand.
#include <cstdio>

#include "tests/bench/planner/commands.hpp"

namespace {

constexpr void (*kCommands[])(CLI::App&) = {
    espalier::bench::add_accuracy,      espalier::bench::add_daemon, espalier::bench::add_decide,
    espalier::bench::add_handoff,       espalier::bench::add_live,   espalier::bench::add_optimality,
    espalier::bench::add_pause,         espalier::bench::add_proxy,  espalier::bench::add_schedule,
    espalier::bench::add_stage_profile, espalier::bench::add_versus, espalier::bench::add_world,
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the planning of Espalier", "espalier-bench");
  app.require_subcommand(1);
  for (const auto add : kCommands) add(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
