#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "launcher/node/gpu_bus_ids.hpp"
#include "launcher/node/launcher_address.hpp"
#include "launcher/world/container.hpp"
#include "launcher/world/server/rank_server.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

namespace fs = std::filesystem;

std::string optional_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0')
    throw Error(std::string(name) + ": not set; the launcher starts rank servers");
  return value;
}

JobId job_in(const char* name) {
  const std::string text = variable(name);
  JobId job = 0;
  if (const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), job);
      error != std::errc{} || end != text.data() + text.size())
    throw Error(std::string(name) + ": \"" + text + "\" is not the number of a job");
  return job;
}

// Slurm sets the first for steps of srun, the second for batch scripts.
std::string slurm_gpus() {
  const std::string of_step = optional_variable("SLURM_STEP_GPUS");
  return of_step.empty() ? optional_variable("SLURM_JOB_GPUS") : of_step;
}

// ESPALIER_CONTAINER_STEP has the words of the step that runs a program in the container, a line each.
std::vector<std::string> container_step(const std::string& directory, const std::string& fifo) {
  std::vector<std::string> command = container_options(optional_variable("ESPALIER_CONTAINER_STEP"));
  if (command.empty()) return command;
  // Ranks meet their PMIx server and log in to the launcher there.
  std::vector<std::string> folders{directory};
  std::error_code ignored;
  if (fs::exists("/run/munge", ignored)) folders.emplace_back("/run/munge");
  command = with_mounts(command, folders);
  for (const std::string& word : container_program(fifo)) command.push_back(word);
  return command;
}

}  // namespace

std::string fifo_of(const RankServerSettings& settings) {
  return (fs::path(settings.directory) / ("ranks-" + std::to_string(settings.job)) / "alive").string();
}

std::vector<std::string> local_variables(const RankServerSettings& settings) {
  std::vector<std::string> list{"SLURM_JOB_ID=" + std::to_string(settings.job), "SLURMD_NODENAME=" + settings.node,
                                "HOSTNAME=" + settings.node};
  // CUDA's own order is by speed. Slurm counts by PCI address, and so do we. MPI may start CUDA before the program
  // does.
  list.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  // Also where we know no bus ids there is a value: one of the user's own would be believed.
  list.push_back("ESPALIER_GPUS=" + gpu_bus_ids(slurm_gpus()));
  // NCCL takes ranks of one host for ones that can map each other's GPU memory. Those of two Slurm jobs cannot.
  list.push_back("NCCL_HOSTID=" + settings.node + "-" + std::to_string(settings.job));
  // Messages do not carry the token.
  list.push_back("ESPALIER_TOKEN=" + settings.token);
  if (settings.with_launcher) list.emplace_back("ESPALIER_WITH_LAUNCHER=1");
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL",
                           "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "TMPDIR"})
    if (const char* value = std::getenv(name);
        value != nullptr && (settings.container.empty() || std::string_view(name) != "TMPDIR"))
      list.push_back(std::string(name) + "=" + value);
  return list;
}

RankServerSettings rank_server_settings(bool with_launcher) {
  RankServerSettings settings;
  std::tie(settings.host, settings.port) = launcher_address();
  settings.token = variable("ESPALIER_TOKEN");
  settings.anchor = job_in("ESPALIER_ANCHOR");
  settings.node = variable("SLURMD_NODENAME");
  settings.directory = fs::path(variable("ESPALIER_DIRECTORY")).parent_path().string();
  settings.with_launcher = with_launcher;
  settings.job = job_in("SLURM_JOB_ID");
  const double seconds = std::atof(variable("ESPALIER_HEARTBEAT").c_str());
  if (!(seconds > 0 && seconds <= 3600)) throw Error("ESPALIER_HEARTBEAT: is not a number of seconds up to 3600");
  settings.heartbeat = std::chrono::milliseconds(std::max(1L, std::lround(seconds * 1000)));
  settings.container = container_step(settings.directory, fifo_of(settings));
  settings.node_setup = optional_variable("ESPALIER_NODE_SETUP");
  if (!settings.node_setup.empty())
    settings.node_setup_limit = std::chrono::seconds(std::atol(variable("ESPALIER_NODE_SETUP_SECONDS").c_str()));
  // A launcher of the version before sets no such variable, and cannot use what a check finds.
  if (optional_variable("ESPALIER_GPU_ERRORS") == "1") settings.checked_gpus = numbered_bus_ids(slurm_gpus());
  return settings;
}

}  // namespace espalier::launcher
