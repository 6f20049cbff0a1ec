#include "launcher/node/keeper.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "launcher/node/directory.hpp"
#include "launcher/node/keeper_parts.hpp"
#include "launcher/node/launcher_address.hpp"
#include "launcher/node/node_holder.hpp"
#include "launcher/node/orphan_questions.hpp"
#include "launcher/node/orphaned_step.hpp"
#include "launcher/node/own_processes.hpp"
#include "launcher/node/tenure.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/endpoint.hpp"
#include "planner/wire/keeper_messages.hpp"

namespace espalier::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// An extension of a movable job that no launcher has accepted for so long is not awaited any more.
constexpr std::chrono::seconds kFindMovable{5};

// Serves one connection to the launcher until it is over.
void serve(wire::Client& client, Watcher& watcher, Tenure& tenure, Vault* vault) {
  client.send(wire::KeeperHello{watcher.context.job, watcher.context.node, true, {}});
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

// Serves one connection. True: the launcher told this keeper to leave, or a signal came. False: the launcher refused
// this keeper, e.g. because the launcher is another job's. Throws Error when the connection is lost.
bool attend(wire::Client& client, Watcher& watcher, AnchorTenure& tenure, OrphanQuestions& questions, Vault* vault) {
  client.send(wire::KeeperHello{watcher.context.job, watcher.context.node, false, {}});
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
    questions.found();
    if (frame->type == wire::GiveBack::type) return true;
    let_go(vault, *frame);
  }
}

// -1: the variable is not set.
int number_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? -1 : std::atoi(value);
}

bool is_orphan(const JobContext& context, const std::string& launcher) {
  try {
    return ends_as_orphan(context, launcher);
  } catch (const Error& error) {
    std::fprintf(stderr, "espalier: keeper: %s; it is asked again\n", error.what());
    return false;
  }
}

void keep_for_one_launcher(Watcher& watcher, const LauncherPlace& place, Vault* vault) {
  for (Tenure tenure(Clock::now(), watcher.heartbeat); tenure.looks(Clock::now());) {
    try {
      auto client = call_on(place);
      serve(client, watcher, tenure, vault);
    } catch (const Error&) {
      // The connection was lost or refused.
    }
    if (tenure.looks(Clock::now())) std::this_thread::sleep_for(milliseconds(100));
  }
}

}  // namespace

int keep_extension() {
  Watcher watcher{read_context({}), milliseconds(1000)};
  watcher.heartbeat = milliseconds(static_cast<long>(watcher.context.config.heartbeat_seconds * 1000));
  const LauncherPlace place = own_launcher();
  const char* prefix = std::getenv("ESPALIER_VAULT");
  auto vault = prefix == nullptr ? nullptr : open_vault(prefix, watcher.context.job);
  if (std::getenv("ESPALIER_MOVABLE") != nullptr && prefix != nullptr) {
    const milliseconds holds(std::lround(watcher.context.config.adoption_minutes * 60000));
    BaseTenure tenure(Clock::now(), false, holds, kFindMovable, spread_of(watcher.context.node));
    NodeHolder(watcher, place.anchor, prefix, tenure, vault.get(), true).hold();
  } else {
    keep_for_one_launcher(watcher, place, vault.get());
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
  const int number = number_of("SLURM_NODEID");
  const bool first_here = number_of("SLURM_LOCALID") == 0;
  // The launcher keeps the vault of its own node. On every other node one of the tasks keeps the vault.
  const auto vault = number != 0 && first_here ? open_vault(steps_vaults, context.job) : nullptr;
  std::optional<LauncherPlace> last;
  AnchorTenure tenure(Clock::now());
  OrphanQuestions questions(number, number_of("SLURM_STEP_NUM_NODES"));
  const std::string launchers = launchers_node();
  // Where the launcher could not start, task 0 runs the program in another step, and may be ended with the first task
  // that ends (WaitTime of slurm.conf).
  const auto stays = [&] {
    if (!tenure.stays(Clock::now()) && another_step_runs(context.job, context.step)) tenure.program_runs(Clock::now());
    return tenure.stays(Clock::now());
  };
  while (stays()) {
    bool nobody = true;
    auto places = launchers_on_this_node(context.job, steps_vaults);
    // The launcher outlives its rank server on this node.
    if (last && std::find(places.begin(), places.end(), *last) == places.end()) places.push_back(*last);
    for (const LauncherPlace& place : places) {
      try {
        auto client = call_on(place);
        last = place;
        if (attend(client, watcher, tenure, questions, vault.get())) return 0;
      } catch (const wire::NobodyListens&) {
      } catch (const wire::ConnectionLost&) {
        tenure.lost(Clock::now());
        questions.lost(Clock::now());
        nobody = false;
      } catch (const Error&) {
        nobody = false;
      }
      watcher.wait(-1, milliseconds(0));
      if (watcher.noticed) return 0;
    }
    tenure.looked(Clock::now(), nobody);
    if (first_here && !launchers.empty() && questions.asks(Clock::now()) && is_orphan(context, launchers)) return 1;
    watcher.wait(-1, tenure.pause(Clock::now()));
    if (watcher.noticed) return 0;
  }
  return 0;
}

}  // namespace espalier::launcher
