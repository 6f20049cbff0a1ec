// Which rank of a generation runs in the step of which Slurm job. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

struct WorldRequest {
  int generation = 0;
  std::vector<GpuId> gpus;        // rank r runs on gpus[r]
  std::vector<Holding> holdings;  // of the anchor and all extensions the plan uses
  wire::GpuIslands islands = {};  // of those, as ranks have said
  std::vector<std::string> program;
  std::vector<std::string> environment;   // "NAME=value", whole
  std::string directory;                  // per-generation scratch
  std::vector<std::int64_t> limits = {};  // soft resource limits of the ranks, as in Child::Traits
  std::string network;                    // CIDR or empty
  bool first = false;                     // generation 0: reads the step's stdin, and its exit code is the program's
};

// A job's presence on a node: there is one rank server for each. A node may hold several extensions of one job, and the
// anchor beside them.
struct ServerId {
  std::string node;
  JobId job = 0;
  auto operator<=>(const ServerId&) const = default;
};

// By rank: the server that starts it. Throws Error when a GPU belongs to no holding.
std::vector<ServerId> servers_of(const WorldRequest& request);

// By rank: which of the GPUs that its process can see is the plan's. A process sees those of the step it runs in, which
// holds all that one job has on the node, in the order of Slurm's indices; so it is the place of the plan's index among
// that job's. Throws Error when a GPU belongs to no holding.
std::vector<int> visible_places(const WorldRequest& request);

// By "node/index", of each GPU of the holdings: its Slurm job, or another number where request.islands tells GPUs of
// the job apart.
wire::GpuJobs jobs_of(const WorldRequest& request);

// The key of a server in wire::GpuIslands.
std::string islands_key(const ServerId& server);

// The srun that runs `program` as a step of `job` with all its GPUs on the node. `reads`: what this process can read.
std::vector<std::string> step_command(JobId job, const std::string& node, int gpus, bool binds_cpus,
                                      const std::vector<std::string>& program, bool reads = false);

}  // namespace espalier::launcher
