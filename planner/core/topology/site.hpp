// The cluster's hardware and topology together: what the scheduler needs beside a snapshot of who holds what.
#pragma once

#include "planner/core/topology/topology.hpp"

namespace espalier {

struct Site {
  Hardware hardware;
  Topology topology;
};

}  // namespace espalier
