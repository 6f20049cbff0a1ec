#include "launcher/world_command.hpp"

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

std::map<std::string, NodeOwner> node_owners(const WorldRequest& request) {
  std::map<std::string, NodeOwner> owners;
  for (const Holding& holding : request.holdings)
    if (holding.job == request.anchor && !holding.gpus.empty())
      owners[holding.node] = {holding.job, static_cast<int>(holding.gpus.size())};
  for (const GpuId& gpu : request.gpus) {
    const Holding& holding = holding_of(request, gpu);
    const auto [at, fresh] =
        owners.try_emplace(gpu.node, NodeOwner{holding.job, static_cast<int>(holding.gpus.size())});
    if (!fresh && at->second.job != holding.job && at->second.job != request.anchor)
      throw Error("plan: node " + gpu.node +
                  " would need two extensions of one job, which is not supported; give one back");
  }
  return owners;
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

std::vector<std::string> mpirun_command(const WorldRequest& request) {
  const auto owners = node_owners(request);
  std::vector<std::string> command{request.mpirun, "--leave-session-attached", "--bind-to",
                                   "none",         "--oversubscribe",          "--quiet"};
  const auto mca = [&command](const std::string& name, const std::string& value) {
    command.insert(command.end(), {"--mca", name, value});
  };
  mca("plm", "rsh");
  mca("plm_rsh_agent", request.launcher + " agent");
  mca("plm_rsh_no_tree_spawn", "1");
  // The shield is the last before orted: the shell that starts it on the node may clear the signal mask (dash does).
  mca("orte_launch_agent", request.launcher + " shield orted");
  mca("ras", "^slurm");
  if (!request.network.empty()) {
    mca("btl_tcp_if_include", request.network);
    mca("oob_tcp_if_include", request.network);
  }
  mca("oob_tcp_keepalive_time", "2");
  mca("oob_tcp_keepalive_intvl", "1");
  mca("oob_tcp_keepalive_probes", "3");
  mca("orte_tmpdir_base", request.directory);
  mca("btl_vader_backing_directory", request.directory);
  mca("btl_vader_single_copy_mechanism", "none");
  mca("orte_startup_timeout", "20");
  if (!request.first) {
    // One lost worker must not make mpirun kill the others: what becomes of the world is the launcher's decision.
    mca("orte_enable_recovery", "1");
    mca("orte_abort_on_non_zero_status", "0");
  }
  // More ranks than cores are the rule on CPU, and two generations share the cores during every hand-off.
  mca("mpi_yield_when_idle", "1");
  if (!request.first) command.insert(command.end(), {"--stdin", "none"});

  for (std::size_t begin = 0; begin < request.gpus.size();) {
    const std::string& node = request.gpus[begin].node;
    const Holding& holding = holding_of(request, request.gpus[begin]);
    std::size_t end = begin;
    while (end < request.gpus.size() && request.gpus[end].node == node &&
           holding_of(request, request.gpus[end]).job == holding.job)
      ++end;
    if (begin > 0) command.emplace_back(":");
    command.insert(command.end(),
                   {"-np", std::to_string(end - begin), "--host", node + ":" + std::to_string(end - begin)});
    if (owners.at(node).job == holding.job) {
      if (!request.first) command.insert(command.end(), {request.launcher, "rank", "--"});
      command.insert(command.end(), request.program.begin(), request.program.end());
    } else {  // an extension's GPUs on an anchor's node: a step of the extension, forked by the anchor's orted
      std::vector<std::string> nested{request.launcher, "step", "--"};
      const auto step =
          step_command(holding.job, node, static_cast<int>(holding.gpus.size()), request.binds_cpus, request.program);
      command.insert(command.end(), nested.begin(), nested.end());
      command.insert(command.end(), step.begin(), step.end());
    }
    begin = end;
  }
  return command;
}

}  // namespace espalier::launcher
