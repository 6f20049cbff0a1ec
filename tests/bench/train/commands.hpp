// Subcommands of espalier-bench-train. The training benchmark compares with these figures of the
// planner's and the schedules' models. Each function adds its subcommand to the application, with
// options and callback.
#pragma once

#include <CLI/CLI.hpp>

namespace espalier::bench {

void add_predict(CLI::App& app);
void add_bubble(CLI::App& app);

}  // namespace espalier::bench
