// espalier's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/error.hpp"

namespace espalier::cli {

// A wrong command line: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

struct Arguments {
  std::vector<std::string> words;  // command and operands
  bool one_line = false, json = false, help = false, version = false;
  bool all = false;                    // forget's --all
  std::string job;                     // --job of all commands except plan (job_operand.hpp); empty: not given
  std::optional<std::uint32_t> limit;  // --limit
  std::string user;                    // usage's --user; empty: not given
  std::string config;
  std::string type, nodes;            // migrate's --type and --nodes; empty: not given
  std::string job_file, cluster;      // plan's --job and --cluster; empty: not given
  std::string schedule;               // plan's --schedule; empty: the job file's
  std::vector<std::string> profiles;  // plan's --profiles: files
  std::vector<int> gpu_counts;        // plan's --gpus: ascending, each once, at least 1

  bool plans() const { return !words.empty() && words[0] == "plan"; }
};

// Options may stand anywhere. Throws UsageError.
Arguments parse_arguments(const std::vector<std::string>& arguments);

// The operand `words[at]` as an id; throws UsageError naming `what` when it is missing or no number.
std::uint32_t id_operand(const Arguments& arguments, std::size_t at, const std::string& what);
// Throws UsageError when there are operands beyond `count` words.
void expect_words(const Arguments& arguments, std::size_t count);

extern const char* const kUsage;
extern const char* const kPlanUsage;

}  // namespace espalier::cli
