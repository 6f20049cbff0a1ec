// Jobs that wait for CPUs or memory alone, where Slurm takes no extension back for them. Pure.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "planner/core/cluster.hpp"

namespace espalier {

class CpuWaits {
 public:
  // Left out where there are 256 others already that ask for something else.
  void add(WaitingJob job);
  // Of jobs that ask for the same on the same nodes, the one that keeps extensions away the longest: one without an
  // expected start, else the one with the earliest. So thousands of jobs alike cost a decision no more than one.
  std::vector<WaitingJob> first_of_each() const;

 private:
  // By list of nodes, number of nodes, CPUs, memory, and whether it shares them.
  std::map<std::tuple<const void*, int, int, long, bool>, WaitingJob> first_;
};

}  // namespace espalier
