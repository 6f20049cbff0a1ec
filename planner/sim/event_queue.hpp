// The events of a simulation.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::sim {

// Events at one time are handled in this order.
enum class EventKind {
  completion,  // of the last training step
  leave,       // the job's end
  begin,       // of the first training step
  pause,
  commit,
  profile,
  settle,  // coefficients are observed
  base,    // of a movable job: it may start on a smaller one, or gives one back
  arrival,
  queue,     // waiting jobs start
  backfill,  // a pass of Slurm's backfill scheduler
  retry,
  round
};

struct Event {
  double time = 0;
  EventKind kind = EventKind::round;
  JobId job = 0;
  int version = 0;  // version of the job's state; an event of an earlier version is void
  bool operator<(const Event& other) const {
    return std::tuple(time, kind, job, version) < std::tuple(other.time, other.kind, other.job, other.version);
  }
};

class EventQueue {
 public:
  void add(const Event& event) { heap_.push(event); }
  bool empty() const { return heap_.empty(); }
  const Event& next() const { return heap_.top(); }
  void pop() { heap_.pop(); }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return b < a; }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
};

}  // namespace espalier::sim
