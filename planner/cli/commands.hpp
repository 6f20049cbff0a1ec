// One function per family of subcommands. Each returns what to print; throws Error (exit 1) or UsageError (exit 2).
#pragma once

#include "planner/cli/arguments.hpp"
#include "planner/wire/config.hpp"

namespace espalier::cli {

std::string show(const Arguments& arguments, const wire::Config& config);
std::string explain(const Arguments& arguments, const wire::Config& config);
std::string control(const Arguments& arguments, const wire::Config& config);  // hold, release, reclaim
std::string ping(const Arguments& arguments, const wire::Config& config);
std::string plan(const Arguments& arguments);                 // offline: needs no configuration and no planner
std::string simulate(const std::vector<std::string>& words);  // offline too; the words after it

}  // namespace espalier::cli
