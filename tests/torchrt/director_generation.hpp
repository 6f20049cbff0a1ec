// A generation of a play: its plan, its processes under mpirun, and what its ranks have said.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/wire/messages.hpp"
#include "planner/wire/server.hpp"
#include "tests/torchrt/play_script.hpp"

namespace espalier::test {

struct Generation {
  int number = -1;
  pid_t mpirun = -1;
  Plan plan;
  wire::GpuJobs jobs;
  ModelShape model;
  std::map<int, wire::ConnectionPtr> ranks;
  std::map<int, pid_t> processes;   // by rank
  std::map<std::string, int> seen;  // how many ranks sent this message
  // Answers to `switch` that are still to come. Answers to a cancelled `switch` arrive late.
  std::size_t unanswered = 0;
  std::int64_t adopted = 0, copied = 0, sent = 0, sent_early = 0;
  std::map<std::string, double> phases_ms;                 // of the load: each phase's longest
  std::set<std::pair<std::int64_t, std::string>> origins;  // steps and sources of the loaded state
  std::size_t size() const { return static_cast<std::size_t>(plan.gpu_count()); }

  // Starts mpirun. Returns why it cannot; empty: it has started.
  std::string launch(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment);
  void kill();
  template <class Message>
  void tell(const Message& message) {
    for (auto& [rank, connection] : ranks) connection->send(message);
  }
  // True when all ranks have sent `what`.
  bool all_said(const std::string& what) { return static_cast<std::size_t>(++seen[what]) == size(); }
  void take(const wire::Loaded& loaded);  // into the sums of all ranks
  // How many ranks accept requests for their state now.
  int listening(const std::string& token) const;
  int living() const;  // ranks
  // Leaves the ranks no more files to open, or as many as before.
  void starve(bool begin) const;
  // Stops all ranks. With "torn" the first rank to be killed is then changing a unit's state. Otherwise all ranks stand
  // at one step. False: the moment never comes.
  bool catch_moment(const Act& act) const;
};

}  // namespace espalier::test
