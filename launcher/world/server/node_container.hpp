// The container of a rank server's ranks, if they run in one: its step, and the requests that wait while it is
// replaced.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/world/server/container_step.hpp"
#include "planner/wire/rank_messages.hpp"

namespace espalier::launcher {

class NodeContainer {
 public:
  // Starts the step that holds the container. While this process has `fifo` open the step waits in it. Throws Error.
  void start(wire::Loop& loop, const std::string& fifo, const std::vector<std::string>& command,
             ContainerStep::Callbacks callbacks);
  // Ends the step; waits for that at most 5 s.
  void end();

  const ContainerStep* step() const { return step_.get(); }  // null: there is none
  bool is_replaced() const { return step_ && !step_->ready(); }
  // The request waits until the container is there again. The launcher ends one that waits too long: forget().
  void wait(wire::RunRanks request) { waiting_.push_back(std::move(request)); }
  bool forget(int generation);  // false: none of that generation waits
  std::vector<wire::RunRanks> take_waiting() { return std::exchange(waiting_, {}); }

 private:
  wire::Descriptor alive_;  // the step ends when it is closed
  std::unique_ptr<ContainerStep> step_;
  std::vector<wire::RunRanks> waiting_;
};

}  // namespace espalier::launcher
