// The facts that a launcher starts with. They come from Slurm's environment, the plugin's variables and the
// configuration.
#pragma once

#include <cstdint>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "launcher/slurm/slurm.hpp"
#include "planner/wire/config.hpp"

namespace espalier::launcher {

struct JobContext {
  JobId job = 0;
  unsigned step = 0;
  std::string node;                    // this node's name in Slurm
  std::string self;                    // path of this program
  std::vector<std::string> program;    // the user's program and its arguments
  std::vector<std::string> container;  // options of the container that ranks enter (world/container.hpp); empty: none
  std::string node_setup;              // the program that prepares each node for ranks; empty: none
  std::vector<std::int64_t> limits;    // soft resource limits by number, as the user submitted the job with
  int min_gpus = 0, max_gpus = 0;
  int base_gpus =
      0;  // that the base of a movable job requests; where fewer are idle, from MIN up, training starts there
  int floor_gpus = 0;   // MIN, if the user gave it; 0: none
  double deadline = 0;  // seconds since the epoch; 0: none
  Accuracy accuracy = Accuracy::bitwise;
  std::string name, account;
  std::string features, reservation;  // as the anchor was submitted
  std::string wckey;                  // the same; empty: the default one
  int nice = 0;                       // the same; 0 also where an operator has raised its priority
  bool typed_gpus = false;            // the anchor named a GPU type
  std::vector<Holding> anchor;  // the basic demand; filled in by complete(), or when the base of a movable job runs
  // The Slurm job that holds it: the job itself, or the base of a movable job; 0: that does not run yet.
  JobId base = 0;
  bool bound_gpus = false;       // Slurm lets this process see some of the job's GPUs on this node only
  bool movable = false;          // --elastic=MIN:MAX,movable: the job holds no GPUs itself
  std::set<std::string> types;   // GPU types that a movable job may run on; empty: any
  std::string partition, qos;    // of the job, and of its base
  std::string base_partition;    // of the base of a movable job: the job's own, or launch.base_partition
  bool may_be_requeued = false;  // by Slurm
  int restarts = 0;              // how often Slurm has requeued the job
  long base_minutes = 0;         // that the bases of a movable job may run together; 0: as long as the job
  long base_most_minutes = 0;    // MaxTime of base_partition; 0: it has none
  std::time_t ends = 0;          // when the job's time limit is over, seconds since the epoch; 0: it has none
  long limit_minutes = 0;        // its time limit; 0: it has none
  SlurmSite site;
  std::vector<NodeView> nodes;  // of the anchor; empty: Slurm did not tell
  wire::Config config;
  bool accuracy_given = false;  // by the user; else the program may say what it can promise

  std::vector<GpuId> anchor_gpus() const;
};

// Reads and checks the environment. Throws Error when this is not a Slurm step or a variable has a bad value.
JobContext read_context(std::vector<std::string> program);
// Fills in the facts that only Slurm knows. Blocks, so call it at the start only. Throws Unanswered where it may
// succeed later, and Error where it cannot.
void complete(JobContext& context);

// Whether this process is the launcher of a movable job, by its environment.
bool is_movable();

// The beginning of the names of the job's vaults (vault.hpp). "-<Slurm job of the node's step>" follows.
std::string vault_prefix(JobId job, unsigned step);
// The same for the launcher's job. A movable job has one prefix for all its steps: what its base keeps outlives the
// launcher's step.
std::string vault_prefix(const JobContext& context);

}  // namespace espalier::launcher
