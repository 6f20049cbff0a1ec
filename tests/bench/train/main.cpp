#include <cstdio>

#include "tests/bench/train/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app("What the models of plans and schedules predict", "espalier-bench-train");
  app.require_subcommand(1);
  espalier::bench::add_predict(app);
  espalier::bench::add_bubble(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier-bench-train: %s\n", error.what());
    return 1;
  }
  return 0;
}
