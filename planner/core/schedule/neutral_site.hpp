// A site of which only names are known: equal GPUs, default bandwidths.
#pragma once

#include <memory>

#include "planner/core/cluster.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

std::shared_ptr<const Site> neutral_site(const ClusterView& cluster);

}  // namespace espalier
