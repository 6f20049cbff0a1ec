// Where the launcher is, and what it asks of those who come.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

// Host and port, from ESPALIER_LAUNCHER. Throws Error when the variable is not set or has no port.
std::pair<std::string, std::uint16_t> launcher_address();

struct LauncherPlace {
  std::string host;
  std::uint16_t port = 0;
  JobId anchor = 0;
  std::string token;
  int restarts = 0;  // how often Slurm had requeued the job when the launcher started
  bool operator==(const LauncherPlace&) const = default;
};

// For a process that the launcher has started: from ESPALIER_LAUNCHER, ESPALIER_ANCHOR and ESPALIER_TOKEN. Throws Error
// as launcher_address().
LauncherPlace own_launcher();
// For a keeper of the anchor, which Slurm starts beside the launcher, and for one of a base. It finds the place in the
// environment of a rank server, or of a rank, on its node. The kernel shows that only to the user whose process it is:
// nobody else can pretend to be the launcher. `vault`: the step's prefix of vault names, which tells the steps of a job
// apart.
std::vector<LauncherPlace> launchers_on_this_node(JobId anchor, const std::string& vault);

}  // namespace espalier::launcher
