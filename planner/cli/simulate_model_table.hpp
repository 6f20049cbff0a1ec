// The table of kinds of jobs (`espalier simulate --jobs`): a TOML file of [[jobs]].
#pragma once

#include <string>
#include <vector>

#include "planner/sim/job_kind.hpp"

namespace espalier::cli {

// Kinds that the empty cluster cannot hold are left out, with a note. Throws Error, naming file,
// line and key.
std::vector<sim::JobKind> read_model_table(const std::string& path, const Site& site, const ClusterView& cluster,
                                           std::vector<std::string>& notes);

}  // namespace espalier::cli
