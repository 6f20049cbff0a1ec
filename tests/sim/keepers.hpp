// Keepers of extensions of jobs that are not movable: launcher/node/keeper.cpp without its system calls.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "launcher/node/tenure.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/slurm_model.hpp"

namespace espalier::sim {

class History;

struct Keeper {
  PartyPtr party;
  JobId job = 0, anchor = 0;
  std::unique_ptr<launcher::Tenure> tenure;
  EndPtr line;
  std::string host;
  std::uint16_t port = 0;
  bool leaving = false;
  wire::Keep keep;  // the last Keep that it got
};
using KeeperPtr = std::shared_ptr<Keeper>;

class Keepers {
 public:
  explicit Keepers(History& history) : history_(history) {}

  void start(const SimJob& job);
  void signal(JobId job);  // SIGTERM to its step; it must have a keeper
  void kill(JobId job);    // Slurm ends it, if it has one
  void kill(const KeeperPtr& keeper, bool with_node);
  bool keeps(JobId job) const;                                    // its keeper lives
  bool kept(JobId job, int generation) const;                     // the state that the generation trained on
  const std::map<JobId, KeeperPtr>& all() const { return all_; }  // by extension; also those that have ended

 private:
  void look(const KeeperPtr& keeper);
  void turn(const KeeperPtr& keeper);
  void tick(const KeeperPtr& keeper);
  void leave(const KeeperPtr& keeper);

  History& history_;
  std::map<JobId, KeeperPtr> all_;
};

}  // namespace espalier::sim
