// The spares of a rank server, and the requests that wait for them: a rank that is forked in a moment is there sooner
// than one whose libraries load.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "launcher/world/server/orphans.hpp"
#include "launcher/world/server/spare_ranks.hpp"

namespace espalier::launcher {

class NodeSpares {
 public:
  struct Callbacks {
    std::function<void(const wire::RunRanks&)> start;  // the ranks of a request may start now
    std::function<void()> can_fork;                    // SpareRanks::Callbacks
  };
  // A fork server that has loaded for `longest_load` when the generation that waits for it is ended has hung.
  NodeSpares(wire::Loop& loop, Callbacks callbacks, std::chrono::milliseconds longest_load = std::chrono::seconds(30));

  SpareRanks& ranks() { return ranks_; }
  // Calls `start` at once, or when the spares for the request are there. It waits while the fork server loads, which
  // the ranks would do as long, and then for forks 10 s at most. The launcher ends what takes too long: forget(). No
  // spare is started after `start` until SpareRanks::keep().
  void run(wire::RunRanks request);
  bool awaits(int generation) const;
  // The request of that generation is not started. False: none waits.
  bool forget(int generation);
  void reap_orphans() { orphans_.reap(); }

 private:
  SpareRanks::Soon soon(const wire::RunRanks& request);
  void look();

  wire::Loop& loop_;
  const Callbacks callbacks_;
  const std::chrono::milliseconds longest_load_;
  Orphans orphans_;
  SpareRanks ranks_;
  std::vector<wire::RunRanks> waiting_;
  std::chrono::steady_clock::time_point since_;  // when the first request began to wait for what loads
  wire::Watch limit_;
};

}  // namespace espalier::launcher
