// Subcommands of espalier-bench. Each function adds its subcommand to the application, with options
// and callback.
#pragma once

#include <CLI/CLI.hpp>

namespace espalier::bench {

void add_accuracy(CLI::App& app);
void add_daemon(CLI::App& app);
void add_decide(CLI::App& app);
void add_handoff(CLI::App& app);
void add_live(CLI::App& app);
void add_optimality(CLI::App& app);
void add_pause(CLI::App& app);
void add_proxy(CLI::App& app);
void add_schedule(CLI::App& app);
void add_stage_profile(CLI::App& app);
void add_versus(CLI::App& app);
void add_world(CLI::App& app);

}  // namespace espalier::bench
