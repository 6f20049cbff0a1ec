#include "launcher/world/placement.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

const Holding& holding_of(const WorldRequest& request, const GpuId& gpu) {
  for (const Holding& holding : request.holdings)
    if (holding.node == gpu.node &&
        std::find(holding.gpus.begin(), holding.gpus.end(), gpu.index) != holding.gpus.end())
      return holding;
  throw Error("plan: GPU " + gpu.node + "/" + std::to_string(gpu.index) + " belongs to no allocation of this job");
}

}  // namespace

std::vector<ServerId> servers_of(const WorldRequest& request) {
  std::vector<ServerId> servers;
  for (const GpuId& gpu : request.gpus) servers.push_back({gpu.node, holding_of(request, gpu).job});
  return servers;
}

std::vector<int> visible_places(const WorldRequest& request) {
  std::vector<int> places;
  for (const GpuId& gpu : request.gpus) {
    const std::vector<int>& held = holding_of(request, gpu).gpus;
    places.push_back(
        static_cast<int>(std::count_if(held.begin(), held.end(), [&](int index) { return index < gpu.index; })));
  }
  return places;
}

wire::GpuJobs jobs_of(const WorldRequest& request) {
  wire::GpuJobs jobs;
  for (const Holding& holding : request.holdings)
    for (const int index : holding.gpus) jobs[holding.node + "/" + std::to_string(index)] = holding.job;
  return jobs;
}

std::vector<std::string> step_command(JobId job, const std::string& node, int gpus, bool binds_cpus,
                                      const std::vector<std::string>& program) {
  std::vector<std::string> command{"srun",      "--jobid=" + std::to_string(job),
                                   "--overlap", "--mpi=none",
                                   "--mem=0",   "--input=none",
                                   "--quiet",   "-N1",
                                   "-n1",       "-w",
                                   node,        "--gres=gpu:" + std::to_string(gpus)};
  if (binds_cpus) command.emplace_back("--cpu-bind=none");
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace espalier::launcher
