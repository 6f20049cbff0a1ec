#include "launcher/world/placement.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

// Slurm gives no job such a number. An island's number is this less its lowest GPU, so that a node has each once.
constexpr JobId kIslands = UINT32_MAX - 16;

// By GPU: the holding that it belongs to. A generation may have 16,384 GPUs of 2,048 holdings.
class HoldingsByGpu {
 public:
  explicit HoldingsByGpu(const std::vector<Holding>& holdings) {
    for (const Holding& holding : holdings)
      for (const int index : holding.gpus) by_gpu_.try_emplace({holding.node, index}, &holding);
  }
  // Throws Error where it belongs to none.
  const Holding& of(const GpuId& gpu) const {
    if (const auto at = by_gpu_.find(gpu); at != by_gpu_.end()) return *at->second;
    throw Error("plan: GPU " + gpu.node + "/" + std::to_string(gpu.index) + " belongs to no allocation of this job");
  }

 private:
  std::map<GpuId, const Holding*> by_gpu_;
};

}  // namespace

std::vector<ServerId> servers_of(const WorldRequest& request) {
  std::vector<ServerId> servers;
  const HoldingsByGpu holdings(request.holdings);
  for (const GpuId& gpu : request.gpus) servers.push_back({gpu.node, holdings.of(gpu).job});
  return servers;
}

std::vector<int> visible_places(const WorldRequest& request) {
  std::vector<int> places;
  const HoldingsByGpu holdings(request.holdings);
  for (const GpuId& gpu : request.gpus) {
    const std::vector<int>& held = holdings.of(gpu).gpus;
    places.push_back(
        static_cast<int>(std::count_if(held.begin(), held.end(), [&](int index) { return index < gpu.index; })));
  }
  return places;
}

wire::GpuJobs jobs_of(const WorldRequest& request) {
  wire::GpuJobs jobs;
  for (const Holding& holding : request.holdings) {
    const auto found = request.islands.find(islands_key({holding.node, holding.job}));
    // A rank that does not see all GPUs of its job cannot tell which is which.
    const bool told = found != request.islands.end() && found->second.size() == holding.gpus.size();
    std::vector<int> gpus = holding.gpus;
    std::sort(gpus.begin(), gpus.end());
    std::map<int, int> first;  // by island: the lowest of its GPUs
    for (std::size_t place = 0; told && place < gpus.size(); ++place)
      first.try_emplace(found->second[place], gpus[place]);
    for (std::size_t place = 0; place < gpus.size(); ++place)
      jobs[holding.node + "/" + std::to_string(gpus[place])] =
          first.size() < 2 ? holding.job : kIslands - static_cast<JobId>(first.at(found->second[place]));
  }
  return jobs;
}

std::string islands_key(const ServerId& server) { return espalier::islands_key(server.node, server.job); }

std::vector<std::string> step_command(JobId job, const std::string& node, int gpus, bool binds_cpus,
                                      const std::vector<std::string>& program, bool reads) {
  std::vector<std::string> command{"srun",      "--jobid=" + std::to_string(job),
                                   "--overlap", "--mpi=none",
                                   "--mem=0",   reads ? "--input=all" : "--input=none",
                                   "--quiet",   "-N1",
                                   "-n1",       "-w",
                                   node,        "--gres=gpu:" + std::to_string(gpus)};
  if (binds_cpus) command.emplace_back("--cpu-bind=none");
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace espalier::launcher
