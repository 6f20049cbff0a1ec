// One function per family of subcommands. Each returns the text to print. Throws Error (exit 1) or
// UsageError (exit 2).
#pragma once

#include "planner/cli/arguments.hpp"
#include "planner/wire/config.hpp"

namespace espalier::cli {

std::string show(const Arguments& arguments, const wire::Config& config);
std::string explain(const Arguments& arguments, const wire::Config& config);
std::string control(const Arguments& arguments, const wire::Config& config);  // hold, release, reclaim, migrate
std::string forget(const Arguments& arguments, const wire::Config& config);
std::string usage(const Arguments& arguments, const wire::Config& config);
std::string ping(const Arguments& arguments, const wire::Config& config);
// Works offline, without configuration and planner.
std::string plan(const Arguments& arguments);
std::string profiled_plan(const Arguments& arguments);  // plan --profiles
// Offline too; `words`: the words after "simulate".
std::string simulate(const std::vector<std::string>& words);

// Offline too; `words`: the words after "schedule". May write files that the words name.
std::string schedule(const std::vector<std::string>& words);

// `words`: the words after "calibrate". Runs a Slurm job.
std::string calibrate(const std::vector<std::string>& words);

// `words`: the words after "profile". Has a job that waits measured: becomes espalier-launch, which submits Slurm jobs.
[[noreturn]] void profile(const std::vector<std::string>& words);

// `words`: the words after "doctor". Prints what it finds, and returns the exit code: 1 where there are faults.
int run_doctor(const std::vector<std::string>& words);

}  // namespace espalier::cli
