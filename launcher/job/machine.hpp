// Runs the state machine: queues events, and passes each through the table at a turn of the loop of its own.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "launcher/job/state_machine.hpp"
#include "planner/core/job.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Machine {
 public:
  // For each event that means something, in this order.
  struct Callbacks {
    std::function<void(const Row&, const std::string& why)> leaves;  // phase() is the old one still
    std::function<void(const Row&)> enters;
    std::function<void(Action)> perform;  // once for each action of the row
    std::function<void()> settles;        // all actions are performed
    std::function<void()> quiet;          // the phase is `running`, and no event waits
  };
  Machine(wire::Loop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

  // `by_world`: the event is about the processes of one generation, and not about the launcher.
  void raise(Event event, const std::string& why = "", bool by_world = false);
  // Events that a generation raised before it was dropped say nothing about the one in its place.
  void forget_first();    // generation 0 was dropped, and starts once more
  void forget_next();     // the next generation was dropped
  void forget_answers();  // a request to stand was given up, and another one is about to be made
  void forget_current();  // the running generation was dropped
  void forget_old();      // the next generation takes the running one's place: what the job has lost still counts

  JobPhase phase() const { return phase_; }
  bool quiet() const { return phase_ == JobPhase::running && events_.empty(); }

 private:
  struct Raised {
    Event event;
    std::string why;
    bool by_world;
  };
  void process(Event event, const std::string& why);

  wire::Loop& loop_;
  Callbacks callbacks_;
  JobPhase phase_ = JobPhase::launching;
  std::deque<Raised> events_;
};

}  // namespace espalier::launcher
