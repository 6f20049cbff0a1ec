// A site of which only names are known. All its GPUs are equal, and bandwidths have their defaults.
#pragma once

#include <memory>

#include "planner/core/cluster.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

std::shared_ptr<const Site> neutral_site(const ClusterView& cluster);

}  // namespace espalier
