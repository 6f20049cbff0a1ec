// Keepers of movable jobs, of their bases and of their extensions: launcher/node/{node_holder,base_keeper}.cpp without
// their system calls. They hold a node for the job's next launcher when this one is lost.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/node/base_tenure.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/slurm_model.hpp"

namespace espalier::sim {

class History;

// Where a launcher listens. A keeper finds it in the environment of the rank server that the launcher has started on
// the keeper's node.
struct Place {
  std::string host;
  std::uint16_t port = 0;
  int restarts = 0;
  bool operator==(const Place&) const = default;
};

Place place_in(const std::vector<std::string>& environment);

struct Holder {
  PartyPtr party;
  JobId job = 0, submitted = 0;  // the base or the extension, and its movable job
  bool extension = false, batch = false;
  std::unique_ptr<launcher::BaseTenure> tenure;
  Place last;
  int newest = 0;
  std::optional<wire::Continuation> continuation;
  bool told = false;         // a continuation, which a mutant may forget
  int told_generation = -1;  // the running one that it named
  wire::Keep keep;
  EndPtr line;
  bool knows_us = false, noticed = false, told_notice = false, leaving = false;
  Seconds heard = 0, looked = 0;
  std::vector<Place> places;  // of this round, and the next one of them
  std::size_t next = 0;
  bool nobody = true;
};
using HolderPtr = std::shared_ptr<Holder>;

class Holders {
 public:
  explicit Holders(History& history) : history_(history) {}

  void start(const SimJob& job);                    // on each of its nodes
  void signal(JobId job);                           // SIGTERM to its steps
  void kill(JobId job, const std::string& node);    // Slurm ends them
  void kill(const HolderPtr& one, bool with_node);  // its job ends with its batch script
  bool keeps(JobId job, const std::string& node) const;
  bool kept(JobId job, const std::string& node, int generation) const;
  std::vector<HolderPtr> alive() const;

  // A launcher has started its rank server in a step of `job` on `node`.
  void served(const PartyPtr& launcher, JobId submitted, JobId job, const std::string& node, const Place& place);
  void forget(const PartyPtr& launcher, JobId job);

 private:
  struct Served {
    PartyPtr launcher;
    JobId submitted = 0, job = 0;
    std::string node;
    Place place;
  };
  void round(const HolderPtr& one);
  void call_next(const HolderPtr& one);
  void attend(const HolderPtr& one, const EndPtr& line, const Place& place);
  void hear(const HolderPtr& one, const Place& place, const wire::Frame& frame);
  void tick(const HolderPtr& one, const EndPtr& line, const Place& place);
  void attended(const HolderPtr& one, bool superseded);
  void ask(const HolderPtr& one);
  void leave(const HolderPtr& one, bool told);
  void end_remains(const HolderPtr& one);
  void tell_slurm(const HolderPtr& one);
  void kill_older_ranks(const HolderPtr& one, int restarts);
  std::vector<Place> launchers(const Holder& one) const;
  void later(const HolderPtr& one, Seconds delay, Callback what);

  History& history_;
  std::vector<HolderPtr> holders_;
  std::vector<Served> served_;
};

}  // namespace espalier::sim
