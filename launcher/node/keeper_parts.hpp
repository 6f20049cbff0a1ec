// What all kinds of keepers do: listen for signals, call on the launcher, hold the node's vault, clear the node.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "launcher/node/launcher_address.hpp"
#include "launcher/node/vault.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

// Blocks the signals that Slurm sends; those that a keeper heeds are read from the descriptor.
wire::Descriptor catch_signals();

struct Watcher {
  JobContext context;
  std::chrono::milliseconds heartbeat;
  wire::Descriptor signals = catch_signals();
  bool noticed = false;

  // Waits for input on `fd` (-1: none) or for a signal, at most one heartbeat or `longest`.
  void wait(int fd) { wait(fd, heartbeat); }
  void wait(int fd, std::chrono::milliseconds longest);
};

// 0 to 10 s, another time on each node (BaseTenure).
std::chrono::milliseconds spread_of(const std::string& node);

// Throws Error.
wire::Client call_on(const LauncherPlace& place);

// Null: the vault's name is taken, e.g. by a job that was started within this one. Then this node's state does not
// outlive its workers.
std::unique_ptr<Vault> open_vault(const std::string& prefix, JobId owner);

// Does what a Keep says; other frames are none of its business. `vault` may be null.
void let_go(Vault* vault, const wire::Frame& frame);

// Kills all processes of the job on this node except this one. Gives up after 3 s.
void fence_node(JobId job);
// The same, and the steps of the job on all nodes.
void fence(JobId job);

}  // namespace espalier::launcher
