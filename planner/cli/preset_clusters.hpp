// Clusters of published experiments, by name.
#pragma once

#include <optional>
#include <string>

#include "planner/cli/plan_cluster_file.hpp"

namespace espalier::cli {

// "cluster-a", "cluster-b": Suika §5.1, one type of GPU. "cluster-arena", "cluster-arena-a",
// "cluster-arena-b": Arena §5.1 and Tab. 1, with 4, 2 and 2 types. nullopt: no such name.
std::optional<PlanCluster> preset_cluster(const std::string& name);

// All names, with commas.
std::string preset_names();

}  // namespace espalier::cli
