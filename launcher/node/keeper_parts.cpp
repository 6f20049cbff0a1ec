#include "launcher/node/keeper_parts.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

#include "launcher/node/keeper.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

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

milliseconds spread_of(const std::string& node) { return milliseconds(std::hash<std::string>{}(node) % 10000); }

void Watcher::wait(int fd, milliseconds longest) {
  pollfd entries[2] = {{fd, POLLIN, 0}, {signals.get(), POLLIN, 0}};
  ::poll(entries, 2, static_cast<int>(longest.count()));
  signalfd_siginfo info;
  while (::read(signals.get(), &info, sizeof info) == sizeof info) noticed = true;
}

wire::Client call_on(const LauncherPlace& place) {
  return wire::Client::tcp({wire::Service::keeper, place.anchor, place.token, {::getuid()}}, place.host, place.port,
                           std::chrono::seconds(2));
}

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

void fence_node(JobId job) {
  for (const auto until = Clock::now() + std::chrono::seconds(3); Clock::now() < until;) {
    if (kill_local_processes(job) == 0) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

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

}  // namespace espalier::launcher
