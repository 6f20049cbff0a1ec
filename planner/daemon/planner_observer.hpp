// What the planner tells about its decisions while it runs. The metrics listen to it.
#pragma once

#include "planner/daemon/store.hpp"

namespace espalier {

// All calls come on the loop's thread. They must be short and must not throw.
class PlannerObserver {
 public:
  virtual ~PlannerObserver() = default;
  virtual void decided(const DecisionRecord& record) = 0;   // recorded, and proposed unless in shadow mode
  virtual void finished(const DecisionRecord& record) = 0;  // has its outcome
  virtual void measured(const DecisionRecord& record) = 0;  // and its measured step time is final
};

}  // namespace espalier
