// Subcommands of espalier-bench-train: what the planner's and the schedules' models say, for the training benchmark to
// compare with. Each adds itself to the application with its options and its callback.
#pragma once

#include <CLI/CLI.hpp>

namespace espalier::bench {

void add_predict(CLI::App& app);
void add_bubble(CLI::App& app);

}  // namespace espalier::bench
