#include <spawn.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "launcher/node/base_tenure.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/node/keeper.hpp"
#include "launcher/node/keeper_parts.hpp"
#include "launcher/node/node_holder.hpp"
#include "launcher/process/child.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') throw Error(std::string(name) + ": not set; the launcher starts bases");
  return value;
}

// Starts the keepers of the base's other nodes, as one step. (Tried on 22.05: with --no-kill the step lives on when one
// of its nodes is lost, and its tasks live on when the srun that started them is killed.)
void start_other_keepers(const Watcher& watcher) {
  auto names = expand_hosts(std::getenv("SLURM_JOB_NODELIST"));
  std::erase(names, watcher.context.node);
  if (names.empty()) return;
  const std::string count = std::to_string(names.size());
  std::vector<std::string> words{"srun",       "--jobid=" + std::to_string(watcher.context.job),
                                 "--overlap",  "--mpi=none",
                                 "--mem=0",    "--input=none",
                                 "--quiet",    "--gres=none",
                                 "--no-kill",  "--kill-on-bad-exit=0",
                                 "--wait=0",   "-N" + count,
                                 "-n" + count, "--ntasks-per-node=1",
                                 "-w",         fold_hosts(names)};
  if (const char* bind = std::getenv("ESPALIER_CPU_BIND"); bind != nullptr)
    words.push_back(std::string("--cpu-bind=") + bind);
  words.insert(words.end(), {watcher.context.self, "keeper", "--base-node"});
  std::vector<std::string> variables = clean_environment({});
  std::vector<char*> command, environment;
  for (std::string& word : words) command.push_back(word.data());
  for (std::string& one : variables) environment.push_back(one.data());
  command.push_back(nullptr);
  environment.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  if (::posix_spawnp(&child, "srun", nullptr, &attributes, command.data(), environment.data()) != 0)
    std::fprintf(stderr, "espalier: keeper: srun cannot be started; state on other nodes does not outlive workers\n");
  posix_spawnattr_destroy(&attributes);
}

// The submitted job has ended without a launcher that could end this. The base ends with its batch script; without that
// one, which may have been lost with its node, nobody else ends it. While the submitted job runs, training may go on
// without this node.
void end_remains(const JobContext& context, JobId submitted, bool batch) {
  if (!batch) return give_back(context.job, context.step);
  for (const SlurmJob& extension : extensions_of(submitted)) give_back(extension.id);
}

}  // namespace

int keep_base(bool batch) {
  Watcher watcher{read_context({}), milliseconds(1000)};
  watcher.heartbeat = milliseconds(static_cast<long>(watcher.context.config.heartbeat_seconds * 1000));
  const LauncherPlace place = own_launcher();
  const std::string prefix = variable("ESPALIER_VAULT");
  auto vault = open_vault(prefix, watcher.context.job);
  if (batch) start_other_keepers(watcher);
  BaseTenure tenure(Clock::now(), batch, milliseconds(std::lround(watcher.context.config.adoption_minutes * 60000)), {},
                    batch ? milliseconds(0) : spread_of(watcher.context.node));
  const bool told = NodeHolder(watcher, place.anchor, prefix, tenure, vault.get(), false).hold();
  vault.reset();
  // Other nodes of the base have keepers of their own, and this keeper's own step must not end before it is done.
  if (batch) fence(watcher.context.job);
  else fence_node(watcher.context.job);
  if (const char* directory = std::getenv("ESPALIER_DIRECTORY"); directory != nullptr)
    remove_if_abandoned(std::filesystem::path(directory).parent_path());
  if (!told) try {
      if (has_ended(place.anchor)) end_remains(watcher.context, place.anchor, batch);
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: keeper: %s\n", error.what());
    }
  return 0;
}

}  // namespace espalier::launcher
