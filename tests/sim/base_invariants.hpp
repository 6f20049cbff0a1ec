// What must hold for the bases of movable jobs, whatever happens: they are owned, they wait where their users want them
// to, and they stand in nobody's way.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/history.hpp"

namespace espalier::sim {

class BaseInvariants {
 public:
  // As Invariants::holds().
  using Holds = std::function<void(const std::string& key, bool bad, Seconds bound, const std::string& what)>;
  BaseInvariants(History& history, Holds holds) : history_(history), holds_(std::move(holds)) {}

  void look();  // each half second
  // A user wants a base that waits to get these nodes only; empty: any.
  void wished(JobId base, const std::vector<std::string>& nodes);
  // Between planner, launchers and Slurm, about one job's bases; empty: they agree.
  std::string differ(JobId job) const;

 private:
  struct Wish {
    std::vector<std::string> nodes;
    int strikes = 0;  // when it was made
  };
  void are_owned();
  void wait_as_wished();
  void make_room();
  JobId waits_for_second(JobId job, const LiveJob& live) const;

  History& history_;
  Holds holds_;
  std::map<JobId, Wish> wishes_;            // the newest of each base
  std::map<std::int64_t, int> strikes_at_;  // when a move was decided
};

}  // namespace espalier::sim
