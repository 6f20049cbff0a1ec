// Options of the policy `arena` (arena.hpp).
#pragma once

namespace espalier {

struct ArenaPolicyOptions {
  // Most doublings and type switches in one decision: the search depth of iterative scaling (Arena §3.5, §5.8). The
  // default is that of the paper's artifact.
  int search_depth = 10;
  // A base moves to another type only where a step is this many times as fast; below 1: never.
  double migrate_gain = 1.1;
};

}  // namespace espalier
