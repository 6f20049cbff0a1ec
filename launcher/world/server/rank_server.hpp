// The rank server: the process of one Slurm job on one node that starts ranks there. It is the PMIx server of its
// ranks, sends their output to the launcher, and kills them when the launcher is gone.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/world/server/gpu_check.hpp"
#include "launcher/world/server/hosted_worlds.hpp"
#include "launcher/world/server/launcher_link.hpp"
#include "launcher/world/server/node_container.hpp"
#include "launcher/world/server/node_setup.hpp"
#include "launcher/world/server/node_spares.hpp"

namespace espalier::launcher {

struct RankServerSettings {
  std::string host;  // the launcher's
  std::uint16_t port = 0;
  std::string token;
  JobId anchor = 0;  // the launcher's job
  JobId job = 0;     // the Slurm job whose step this is
  std::string node;
  std::string directory;  // the job's scratch directory on this node
  std::chrono::milliseconds heartbeat{1000};
  bool with_launcher = false;          // on the launcher's node, as its child
  std::vector<std::string> container;  // the step that holds the container of its ranks; empty: they run in none
  std::string node_setup;              // the program that prepares the node first; empty: none does
  std::chrono::seconds node_setup_limit{};
  std::map<int, std::string> checked_gpus;  // GPUs whose errors are looked at first: bus ids by Slurm's number
};

// From ESPALIER_LAUNCHER, ESPALIER_TOKEN, ESPALIER_ANCHOR, ESPALIER_DIRECTORY, ESPALIER_HEARTBEAT, ESPALIER_NODE_SETUP,
// ESPALIER_NODE_SETUP_SECONDS, ESPALIER_GPU_ERRORS, SLURM_JOB_ID and SLURMD_NODENAME. Throws Error.
RankServerSettings rank_server_settings(bool with_launcher);
// What names this node's devices and this process's Slurm job, "NAME=value". Programs look there for their GPUs, and a
// keeper finds the processes of its job by SLURM_JOB_ID.
std::vector<std::string> local_variables(const RankServerSettings& settings);
// While a process has it open for writing the container's step waits (container_program).
std::string fifo_of(const RankServerSettings& settings);

class RankServer {
 public:
  explicit RankServer(RankServerSettings settings);
  RankServer(const RankServer&) = delete;
  RankServer& operator=(const RankServer&) = delete;
  int run();  // until the launcher lets it go or is lost; the exit code. Throws Error

 private:
  void check_gpus();
  void prepare_node();
  void make_container();
  void give_up(const std::string& why);
  void find_launcher();
  void handle(const wire::Frame& frame);
  void run_ranks(wire::RunRanks request);
  void start_when_ready(wire::RunRanks request);
  void start_world(const wire::RunRanks& request);
  std::vector<std::string> own_variables() const;
  void keep_spares(wire::KeepSpares request);
  void end(int generation);
  void fence(const std::string& name, std::int64_t ticket, const std::string& data);
  void wanted(const std::string& name, int rank, std::int64_t ticket);
  void answer_wanted(const wire::ModexWanted& question);
  void wrote(const wire::RankOutput& output);
  void take_signals();

  const RankServerSettings settings_;
  wire::Loop loop_;
  wire::Descriptor signals_, in_use_;
  std::unique_ptr<PmixServer> pmix_;
  std::unique_ptr<NodeSetup> setup_;     // none: the node needs no preparation
  NodeContainer container_;              // outlives the ranks
  std::unique_ptr<GpuCheck> gpu_check_;  // none: no GPU is looked at
  std::vector<wire::GpuFault> gpu_faults_;
  bool prepared_ = false;  // the node is, and the launcher may be called once the GPUs have been looked at
  NodeSpares spares_;
  HostedWorlds worlds_;
  LauncherLink launcher_;
  wire::Watch signalled_;
  int code_ = 0;  // what run() returns
};

}  // namespace espalier::launcher
