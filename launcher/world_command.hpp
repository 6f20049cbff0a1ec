// From a plan and the owners of its GPUs to the mpirun command of one generation. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::launcher {

struct WorldRequest {
  std::vector<GpuId> gpus;        // rank r runs on gpus[r]
  std::vector<Holding> holdings;  // of the anchor and all extensions the plan uses
  JobId anchor = 0;
  std::vector<std::string> program;  // what each rank runs
  std::string launcher;              // path of espalier-launch, for the agent, ranks and nested steps
  std::string mpirun;
  std::string network;      // CIDR or empty
  std::string directory;    // per-generation scratch
  bool binds_cpus = false;  // the site's TaskPlugin does, and must not
  bool first = false;       // generation 0: reads the step's stdin, and its exit code is the program's
};

// Where a node's orted runs: in the anchor if that has GPUs there, else in the extension that has.
struct NodeOwner {
  JobId job = 0;
  int gpus = 0;  // all that the job has there
  bool operator==(const NodeOwner&) const = default;
};

// Throws Error when a GPU belongs to no holding, or when a node without the anchor would need two extensions: a nested
// step of the one would die of the other's preemption notice.
std::map<std::string, NodeOwner> node_owners(const WorldRequest& request);
std::vector<std::string> mpirun_command(const WorldRequest& request);

// By rank: which of the GPUs that its process can see is the plan's. A process sees those of the step it runs in, which
// holds all that one job has on the node, in the order of Slurm's indices; so it is the place of the plan's index among
// that job's. Throws Error when a GPU belongs to no holding.
std::vector<int> visible_places(const WorldRequest& request);

// The nested srun that runs `program` on an extension's GPUs, or an orted in its owner's allocation.
std::vector<std::string> step_command(JobId job, const std::string& node, int gpus, bool binds_cpus,
                                      const std::vector<std::string>& program);

}  // namespace espalier::launcher
