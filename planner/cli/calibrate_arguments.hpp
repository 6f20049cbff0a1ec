// The command line of `espalier calibrate`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace espalier::cli {

struct CalibrateArguments {
  std::string config, nodes, partition, program, mpi, output;
  int minutes = 10, wait_seconds = 300;
  bool dry_run = false, json = false;
  std::vector<std::string> extra;  // of salloc
};

// nullopt: `help` is to be printed. Throws UsageError.
std::optional<CalibrateArguments> parse_calibrate(const std::vector<std::string>& words, std::string& help);

}  // namespace espalier::cli
