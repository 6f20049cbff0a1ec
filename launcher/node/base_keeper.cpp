#include <spawn.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "launcher/node/base_tenure.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/node/keeper.hpp"
#include "launcher/node/keeper_parts.hpp"
#include "launcher/process/child.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/keeper_messages.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMissedHeartbeats = 10;
constexpr milliseconds kPause{500};
constexpr std::chrono::seconds kLooks{5};  // beside a launcher, for a newer one

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

// What a keeper of a base holds, and for which job.
struct Keeping {
  Watcher& watcher;
  const JobId submitted;
  const std::string prefix;  // of the names of the job's vaults
  BaseTenure& tenure;
  Vault* const vault;
  std::optional<wire::Continuation> continuation;  // that the last launcher has sent
  int newest = 0;                                  // restarts of the newest launcher that has accepted this keeper
};

// The launchers that have processes on this node, and `last`, the newest ones first. One that is older than a launcher
// that has accepted this keeper may have been cut off, and does not know that Slurm has requeued its job: it is none.
std::vector<LauncherPlace> launchers(const Keeping& keeping, const LauncherPlace& last) {
  auto places = launchers_on_this_node(keeping.submitted, keeping.prefix);
  if (std::find(places.begin(), places.end(), last) == places.end()) places.push_back(last);
  std::erase_if(places, [&](const LauncherPlace& place) { return place.restarts < keeping.newest; });
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.restarts > b.restarts; });
  return places;
}

enum class Attended { told, refused, superseded };  // told: by the launcher, to give the node back

// Serves one connection. Throws Error when the connection is lost, or the launcher is silent.
Attended attend(wire::Client& client, const LauncherPlace& place, Keeping& keeping) {
  Watcher& watcher = keeping.watcher;
  client.send(wire::KeeperHello{watcher.context.job, watcher.context.node, false, keeping.continuation});
  bool knows_us = false;
  auto sent = Clock::now(), heard = sent, looked = sent;
  for (;;) {
    watcher.wait(client.fd());
    const auto now = Clock::now();
    if (knows_us && now - sent >= watcher.heartbeat) {
      client.send(wire::Heartbeat{});
      sent = now;
    }
    while (const auto frame = client.receive(milliseconds(0))) {
      if (frame->type == wire::Refused::type) return Attended::refused;
      if (frame->type == wire::GiveBack::type) return Attended::told;
      if (!knows_us) keeping.tenure.found();
      if (!knows_us) kill_rank_servers(keeping.prefix, keeping.newest = place.restarts);
      knows_us = true;
      heard = now;
      let_go(keeping.vault, *frame);
      if (frame->type == wire::Continuation::type) keeping.continuation = wire::from_frame<wire::Continuation>(*frame);
    }
    if (now - heard > kMissedHeartbeats * watcher.heartbeat) throw wire::ConnectionLost("the launcher is silent");
    if (now - looked < kLooks) continue;
    looked = now;
    if (knows_us) kill_rank_servers(keeping.prefix, place.restarts);
    if (launchers(keeping, place).front().restarts > place.restarts) return Attended::superseded;
  }
}

void ask_about(JobId submitted, BaseTenure& tenure) {
  try {
    const auto job = load_job(submitted);
    using enum SlurmJob::State;
    if (!job || job->state == ended || (job->state == completing && !job->runs_again))
      tenure.heard(BaseTenure::Submitted::ended, 0);
    else
      tenure.heard(job->state == running ? BaseTenure::Submitted::runs : BaseTenure::Submitted::waits, job->restarts);
  } catch (const Error&) {
    // slurmctld is away: asked again
  }
}

// Returns once the node is to be given back. True: the launcher said so.
bool hold(Keeping& keeping) {
  LauncherPlace last = own_launcher();
  while (keeping.tenure.stays(Clock::now())) {
    bool nobody = true;
    // The next launcher is known by the rank server that it starts on this node.
    for (const LauncherPlace& place : launchers(keeping, last)) {
      Attended how = Attended::refused;
      try {
        auto client = call_on(place);
        last = place;
        how = attend(client, place, keeping);
        nobody = false;
      } catch (const wire::NobodyListens&) {
      } catch (const Error&) {
        nobody = false;
      }
      if (how == Attended::told) return true;
      keeping.tenure.lost(Clock::now());
      if (how == Attended::superseded) break;
    }
    keeping.tenure.looked(Clock::now(), nobody);
    if (keeping.tenure.asks(Clock::now())) ask_about(keeping.submitted, keeping.tenure);
    keeping.watcher.wait(-1, kPause);
  }
  return false;
}

}  // namespace

int keep_base(bool batch) {
  Watcher watcher{read_context({}), milliseconds(1000)};
  watcher.heartbeat = milliseconds(static_cast<long>(watcher.context.config.heartbeat_seconds * 1000));
  const LauncherPlace place = own_launcher();
  const std::string prefix = variable("ESPALIER_VAULT");
  auto vault = open_vault(prefix, watcher.context.job);
  if (batch) start_other_keepers(watcher);
  BaseTenure tenure(Clock::now(), batch, milliseconds(std::lround(watcher.context.config.adoption_minutes * 60000)));
  Keeping keeping{watcher, place.anchor, prefix, tenure, vault.get(), {}};
  const bool told = hold(keeping);
  vault.reset();
  // Other nodes of the base have keepers of their own, and this keeper's own step must not end before it is done.
  if (batch) fence(watcher.context.job);
  else fence_node(watcher.context.job);
  if (const char* directory = std::getenv("ESPALIER_DIRECTORY"); directory != nullptr)
    remove_if_abandoned(std::filesystem::path(directory).parent_path());
  // The base ends with its batch script. Without that one, which may have been lost with its node, nobody else ends it.
  // While the submitted job runs, training may go on without this node.
  if (!told && !batch) try {
      const auto submitted = load_job(place.anchor);
      using enum SlurmJob::State;
      if (!submitted || submitted->state == ended || (submitted->state == completing && !submitted->runs_again))
        give_back(watcher.context.job, watcher.context.step);
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: keeper: %s\n", error.what());
    }
  return 0;
}

}  // namespace espalier::launcher
