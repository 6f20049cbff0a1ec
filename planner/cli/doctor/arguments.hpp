// The command line of `espalier doctor`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace espalier::cli::doctor {

struct Arguments {
  std::string config;
  std::optional<bool> administrator;  // nullopt: root and SlurmUser are
  bool json = false, fix_plan = false;
};

// nullopt: `help` is to be printed. Throws UsageError.
std::optional<Arguments> parse_arguments(const std::vector<std::string>& words, std::string& help);

}  // namespace espalier::cli::doctor
