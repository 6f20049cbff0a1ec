// Slurm's host lists.
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/core/text_limits.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void host_list(std::string_view input) {
  try {
    const std::vector<std::string> names = expand_hosts(std::string(input).c_str());
    require(names.size() <= kMaxHosts);
    if (!names.empty()) fold_hosts(names);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
