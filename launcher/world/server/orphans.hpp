// Processes that ranks have left behind, such as the workers of a data loader. Where spares are forked this process is
// a "child subreaper" (PR_SET_CHILD_SUBREAPER): it is the parent of all processes below it that have lost theirs.
#pragma once

#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Orphans {
 public:
  // This process becomes a child subreaper.
  explicit Orphans(wire::Loop& loop);
  // Reaps those that have ended. Call it on SIGCHLD. A process that a Child owns is left to that Child.
  void reap();

 private:
  wire::Loop& loop_;
  wire::Watch again_;
};

}  // namespace espalier::launcher
