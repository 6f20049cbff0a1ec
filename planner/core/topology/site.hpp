// The cluster's hardware and topology. The scheduler needs both in addition to the snapshot of the
// cluster.
#pragma once

#include "planner/core/topology/topology.hpp"

namespace espalier {

struct Site {
  Hardware hardware;
  Topology topology;
};

}  // namespace espalier
