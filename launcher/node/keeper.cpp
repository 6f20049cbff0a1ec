#include "launcher/node/keeper.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "launcher/node/directory.hpp"
#include "launcher/node/launcher_address.hpp"
#include "launcher/node/tenure.hpp"
#include "launcher/node/vault.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/descriptor.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

wire::Descriptor catch_signals() {
  sigset_t set;
  sigemptyset(&set);
  // Not read below: these signals are meant for the user's program.
  for (const int number : {SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGURG}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return wire::Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

struct Watcher {
  JobContext context;
  milliseconds heartbeat;
  wire::Descriptor signals = catch_signals();
  bool noticed = false;

  // Waits for input on `fd` or for a signal, at most one heartbeat.
  void wait(int fd) { wait(fd, heartbeat); }
  void wait(int fd, milliseconds longest) {
    pollfd entries[2] = {{fd, POLLIN, 0}, {signals.get(), POLLIN, 0}};
    ::poll(entries, 2, static_cast<int>(longest.count()));
    signalfd_siginfo info;
    while (::read(signals.get(), &info, sizeof info) == sizeof info) noticed = true;
  }
};

wire::Client call_on(const LauncherPlace& place) {
  return wire::Client::tcp({wire::Service::keeper, place.anchor, place.token, {::getuid()}}, place.host, place.port,
                           std::chrono::seconds(2));
}

// Null: the vault's name is taken, e.g. by a job that was started within this one. Then this node's state does not
// outlive its workers.
std::unique_ptr<Vault> open_vault(const std::string& prefix, JobId owner) {
  try {
    return std::make_unique<Vault>(vault_name(prefix, std::to_string(owner)));
  } catch (const Error& error) {
    std::fprintf(stderr, "espalier: keeper: %s; after a loss the job goes on with older state\n", error.what());
    return nullptr;
  }
}

void let_go(Vault* vault, const wire::Frame& frame) {
  if (frame.type != wire::Keep::type || vault == nullptr) return;
  const auto keep = wire::from_frame<wire::Keep>(frame);
  vault->keep(keep.generation, keep.copies);
}

// Serves one connection to the launcher until it is over.
void serve(wire::Client& client, Watcher& watcher, Tenure& tenure, Vault* vault) {
  client.send(wire::KeeperHello{watcher.context.job, watcher.context.node, true});
  tenure.connected(Clock::now());
  for (;;) {
    watcher.wait(client.fd());
    if (watcher.noticed) tenure.signalled();
    while (const auto frame = client.receive(milliseconds(0))) {
      if (!tenure.hears(frame->type, Clock::now())) return;
      let_go(vault, *frame);
    }
    const Tenure::Turn turn = tenure.turn(Clock::now());
    if (turn.notice) client.send(wire::Notice{watcher.context.job});
    if (turn.heartbeat) client.send(wire::Heartbeat{});
    if (turn.lost) return;
  }
}

// Kills all processes of the job on this node except this one. Gives up after 3 s.
void fence(JobId job) {
  for (const auto until = Clock::now() + std::chrono::seconds(3); Clock::now() < until;) {
    const int here = kill_local_processes(job);
    int steps = 0;
    try {
      steps = kill_steps(job);
    } catch (const Error&) {
      // slurmctld is away. The processes on this node are dead without it.
    }
    if (here == 0 && steps == 0) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Serves one connection. True: the launcher told this keeper to leave, or a signal came. False: the launcher refused
// this keeper, e.g. because the launcher is another job's. Throws Error when the connection is lost.
bool attend(wire::Client& client, Watcher& watcher, AnchorTenure& tenure, Vault* vault) {
  client.send(wire::KeeperHello{watcher.context.job, watcher.context.node, false});
  bool knows_us = false;
  for (auto sent = Clock::now();;) {
    watcher.wait(client.fd());
    if (watcher.noticed) return true;
    if (knows_us && Clock::now() - sent >= watcher.heartbeat) {
      client.send(wire::Heartbeat{});
      sent = Clock::now();
    }
    const auto frame = client.receive(milliseconds(0));
    if (!frame) continue;
    if (frame->type == wire::Refused::type) return false;
    knows_us = true;
    tenure.found();
    if (frame->type == wire::GiveBack::type) return true;
    let_go(vault, *frame);
  }
}

}  // namespace

int keep_extension() {
  Watcher watcher{read_context({}), milliseconds(1000)};
  watcher.heartbeat = milliseconds(static_cast<long>(watcher.context.config.heartbeat_seconds * 1000));
  const LauncherPlace place = own_launcher();
  const char* prefix = std::getenv("ESPALIER_VAULT");
  auto vault = prefix == nullptr ? nullptr : open_vault(prefix, watcher.context.job);
  for (Tenure tenure(Clock::now(), watcher.heartbeat); tenure.looks(Clock::now());) {
    try {
      auto client = call_on(place);
      serve(client, watcher, tenure, vault.get());
    } catch (const Error&) {
      // The connection was lost or refused.
    }
    if (tenure.looks(Clock::now())) std::this_thread::sleep_for(milliseconds(100));
  }
  vault.reset();
  fence(watcher.context.job);
  if (const char* directory = std::getenv("ESPALIER_DIRECTORY"); directory != nullptr)
    remove_if_abandoned(std::filesystem::path(directory).parent_path());
  return 0;
}

int keep_anchor() {
  const JobContext context = read_context({});
  Watcher watcher{context, milliseconds(static_cast<long>(context.config.heartbeat_seconds * 1000))};
  const std::string steps_vaults = vault_prefix(context.job, context.step);
  // The launcher keeps the vault of its own node. On every other node one of the tasks keeps the vault.
  const auto is_zero = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && std::string(value) == "0";
  };
  const bool keeps = !is_zero("SLURM_NODEID") && is_zero("SLURM_LOCALID");
  const auto vault = keeps ? open_vault(steps_vaults, context.job) : nullptr;
  std::optional<LauncherPlace> last;
  for (AnchorTenure tenure(Clock::now()); tenure.stays(Clock::now());) {
    bool nobody = true;
    auto places = launchers_on_this_node(context.job, steps_vaults);
    // The launcher outlives its rank server on this node.
    if (last && std::find(places.begin(), places.end(), *last) == places.end()) places.push_back(*last);
    for (const LauncherPlace& place : places) {
      try {
        auto client = call_on(place);
        last = place;
        if (attend(client, watcher, tenure, vault.get())) return 0;
      } catch (const wire::NobodyListens&) {
      } catch (const wire::ConnectionLost&) {
        tenure.lost(Clock::now());
        nobody = false;
      } catch (const Error&) {
        nobody = false;
      }
      watcher.wait(-1, milliseconds(0));
      if (watcher.noticed) return 0;
    }
    tenure.looked(Clock::now(), nobody);
    watcher.wait(-1, tenure.pause(Clock::now()));
    if (watcher.noticed) return 0;
  }
  return 0;
}

}  // namespace espalier::launcher
