// The command line of `espalier doctor`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/doctor/toy_job.hpp"

namespace espalier::cli::doctor {

struct Arguments {
  std::string config;
  std::optional<bool> administrator;  // nullopt: root and SlurmUser are
  bool json = false, fix_plan = false;
  bool run = false;
  ToyJob job;  // of --run; program and folder may be empty: the defaults
};

// nullopt: `help` is to be printed. Throws UsageError.
std::optional<Arguments> parse_arguments(const std::vector<std::string>& words, std::string& help);

}  // namespace espalier::cli::doctor
