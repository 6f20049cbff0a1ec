#include "launcher/world/rank_servers.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "launcher/world/restart_wait.hpp"
#include "launcher/world/served_ranks.hpp"
#include "launcher/world/write_all.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {
namespace {

constexpr int kMissedHeartbeats = 10;

}  // namespace

RankServers::RankServers(wire::Loop& loop, RankServersSettings settings, std::function<void(JobId)> noticed)
    : loop_(loop), settings_(std::move(settings)), noticed_(std::move(noticed)), output_(loop) {
  const auto start = [this](const ServerId& id) {
    if (const auto at = servers_.find(id); at != servers_.end()) try_launch(id, at->second.gpus);
  };
  gate_ = std::make_unique<StartGate>(loop_, settings_.at_once, settings_.makes_room, start);
  heartbeat_ = loop_.every(settings_.heartbeat, [this] { beat(); });
}

RankServers::~RankServers() {
  leave();
  for (auto& [id, server] : servers_)
    if (server.connection) server.connection->close();
}

void RankServers::leave() {
  if (std::exchange(ending_, true)) return;
  gate_->close();
  for (auto& [id, server] : servers_)
    if (server.connection) server.connection->send(wire::GiveBack{});
    else if (server.given_up) end(id);  // it may not hear of the end of the job
}

bool RankServers::left() const {
  return std::none_of(servers_.begin(), servers_.end(),
                      [](const auto& one) { return one.second.child && one.second.child->running(); });
}

void RankServers::start() {
  for (const Holding& holding : settings_.holdings) {
    if (holding.gpus.empty()) continue;
    const ServerId id{holding.node, holding.job};
    const int gpus = static_cast<int>(holding.gpus.size());
    if (is_child(id)) launch(id, gpus, true);
    else start_soon(id, gpus);
  }
}

// A step waits until others have started.
void RankServers::start_soon(const ServerId& id, int gpus) {
  servers_[id].gpus = gpus;
  if (is_child(id)) try_launch(id, gpus);
  else gate_->ask(id);
}

// The anchor's rank server on this node is a child of the launcher, unless Slurm binds the launcher's task to some of
// the GPUs. Every other rank server is a step of its Slurm job, so that it sees that job's GPUs, and all of them.
void RankServers::launch(const ServerId& id, int gpus, bool waits) {
  const bool here = is_here(id);
  const std::string program = (std::filesystem::path(settings_.launcher).parent_path() / "espalier-ranks").string();
  std::vector<std::string> command{program};
  if (here) command.emplace_back("--with-launcher");
  auto environment = settings_.environment;
  if (!settings_.container.empty()) {
    std::string words = settings_.launcher + "\nstep\n--";
    for (const std::string& word : step_command(id.job, id.node, gpus, settings_.binds_cpus, settings_.container))
      words += "\n" + word;
    environment.push_back("ESPALIER_CONTAINER_STEP=" + words);
  }
  if (is_child(id)) {
    environment.push_back("SLURM_JOB_ID=" + std::to_string(id.job));
    environment.push_back("SLURMD_NODENAME=" + id.node);
    // Which GPUs of the node are the job's; Slurm tells a step of its own the same.
    for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"})
      if (const char* value = std::getenv(name)) environment.push_back(std::string(name) + "=" + value);
  } else {
    const auto step = step_command(id.job, id.node, gpus, settings_.binds_cpus, command, here);
    command = {settings_.launcher, "step", "--"};
    command.insert(command.end(), step.begin(), step.end());
  }
  Server& server = servers_[id];
  server.gpus = gpus;
  Child::Traits traits;
  traits.keeps_stdin = here;  // of rank 0, which is on this node
  if (!waits) traits.refused = [this, id, gpus](const std::string& why) { not_started(id, gpus, why); };
  server.child =
      std::make_unique<Child>(loop_, command, clean_environment(environment), traits, [this, id, gpus](int status) {
        if (!ending_) ended(id, gpus, exit_code(status));
      });
}

void RankServers::ended(const ServerId& id, int gpus, int code) {
  gate_->over(id);
  // A world that has begun since its connection was lost waits for the next server, not for this one.
  if (!std::exchange(servers_.at(id).loss_known, false))
    lose(id, "the rank server on " + id.node + " ended with code " + std::to_string(code));
  Server& server = servers_.at(id);
  server.given_up = false;
  server.kill.reset();
  server.refuses = code == wire::kCannotRun;
  if (!server.leaves && (server.refuses || server.away)) return;
  restart_later(id, gpus);
}

void RankServers::restart_later(const ServerId& id, int gpus) {
  Server& server = servers_.at(id);
  const double longer = static_cast<double>(random_() >> 11) * 0x1p-53;
  const auto wait = server.leaves ? wire::Loop::Milliseconds(0) : restart_wait(server.failures++, longer);
  server.restart = loop_.after(wait, [this, id, gpus] {
    Server& due = servers_.at(id);
    if (due.leaves) return void(servers_.erase(id));
    due.restart.reset();
    start_soon(id, gpus);
  });
}

void RankServers::try_launch(const ServerId& id, int gpus) {
  try {
    launch(id, gpus, false);
  } catch (const Error& error) {
    not_started(id, gpus, error.what());
  }
}

void RankServers::not_started(const ServerId& id, int gpus, const std::string& why) {
  gate_->over(id);
  if (ending_) return;
  const Server& server = servers_.at(id);
  if (server.failures == 0 && !server.leaves)
    spdlog::warn(
        "espalier: launch: {}; no ranks can run on {} until its rank server starts, which is tried again; look at the "
        "file system of {} and at the limit of processes on this node",
        why, id.node, settings_.launcher);
  if (server.leaves || !server.away) restart_later(id, gpus);
}

void RankServers::serve(const ServerId& id, int gpus) {
  const auto at = servers_.find(id);
  if (at != servers_.end() && (at->second.child || at->second.restart || gate_->holds(id)))
    return;  // the keeper came back
  start_soon(id, gpus);
}

void RankServers::withdraw(JobId job, const std::set<std::string>& nodes) {
  for (auto& [id, server] : servers_) {
    if (id.job != job) continue;
    const bool was_away = std::exchange(server.away, nodes.contains(id.node));
    if (server.away) server.restart.reset(), gate_->over(id);
    else if (was_away) restart_now(id);
  }
}

// Nothing where it runs, or starts none again. One that was given up ends first: ended() starts the next one.
void RankServers::restart_now(const ServerId& id) {
  Server& server = servers_.at(id);
  server.away = false;
  if (server.connection || server.refuses || server.leaves) return;
  if (server.given_up) return end(id);
  if (server.child && server.child->running()) return;
  if (gate_->holds(id)) return;
  server.failures = 0;
  restart_later(id, server.gpus);
}

void RankServers::forget(JobId job) {
  for (auto at = servers_.begin(); at != servers_.end();) {
    at->second.leaves = at->second.leaves || at->first.job == job;
    const bool over = at->second.leaves && (!at->second.child || !at->second.child->running());
    if (over) gate_->over(at->first);
    at = over ? servers_.erase(at) : std::next(at);
  }
}

void RankServers::adopt(const wire::ConnectionPtr& connection, const wire::RankServerHello& hello) {
  const ServerId id{hello.node, hello.job};
  Server& server = servers_[id];
  if (server.connection) throw Error("rank server: that of job " + std::to_string(id.job) + " is there already");
  server.connection = connection;
  gate_->over(id);
  server.base64 = hello.base64;
  server.missed = server.failures = 0;
  server.loss_known = server.given_up = false;
  connection->on_frame = [this, id](const wire::Frame& frame) {
    if (const auto at = servers_.find(id); at != servers_.end()) at->second.missed = 0;
    try {
      handle(id, frame);
    } catch (const Error& error) {
      give_up(id, "the rank server on " + id.node + ": " + error.what());
    }
  };
  connection->on_closed = [this, id](const std::string&) {
    if (const auto at = servers_.find(id); at != servers_.end()) {
      at->second.connection.reset();
      at->second.loss_known = true;
    }
    lose(id, "the rank server on " + id.node + " was lost");
  };
  connection->send(wire::Heartbeat{});
  // Spares take the cores that starting ranks need. But ranks that are forked start sooner than as many that load.
  const auto starts = [&id](const auto& one) { return one.second->uses(id); };
  if ((spares_fork_ && server.gpus > 1) || std::none_of(worlds_.begin(), worlds_.end(), starts)) send_spares(server);
  for (const auto& [generation, world] : std::map(worlds_))
    if (world->uses(id)) world->came(id, server.base64);
}

void RankServers::keep_spares(const std::vector<std::string>& program, const std::vector<std::string>& environment) {
  std::error_code ignored;
  spares_ =
      wire::KeepSpares{0, program, environment, std::filesystem::current_path(ignored).string(), settings_.limits};
  for (const auto& [id, server] : servers_) send_spares(server);
}

void RankServers::send_spares(const Server& server) {
  if (!spares_ || !server.connection) return;
  wire::KeepSpares own = *spares_;
  own.count = server.gpus;
  own.forks = spares_fork_;
  server.connection->send(own);
}

void RankServers::handle(const ServerId& id, const wire::Frame& frame) {
  if (frame.type == wire::Heartbeat::type) return;
  if (frame.type == wire::Notice::type) return noticed_(id.job);
  if (frame.type == wire::SparesFork::type) return void(spares_fork_ = true);
  if (frame.type == wire::RankOutput::type) {
    const auto output = wire::from_frame<wire::RankOutput>(frame);
    return output_.post([this, id, output]() -> std::function<void()> {
      write_all(output.error ? STDERR_FILENO : STDOUT_FILENO, wire::text_to_bytes(output.text));
      return [this, id, bytes = static_cast<std::int64_t>(output.text.size())] {
        const auto at = servers_.find(id);
        if (at != servers_.end() && at->second.connection) at->second.connection->send(wire::OutputTaken{bytes});
      };
    });
  }
  const auto generation = frame.body.find("generation");
  if (generation == frame.body.end() || !generation->is_number_integer()) return;  // of a newer version
  const auto at = worlds_.find(generation->get<int>());
  if (at != worlds_.end() && at->second->uses(id)) at->second->handle(id, frame);
}

// Its ranks have ended with it, or do so as soon as it notices.
void RankServers::lose(const ServerId& id, const std::string& why) {
  if (ending_) return;
  if (const auto at = servers_.find(id); at != servers_.end())
    if (const auto lost = std::exchange(at->second.connection, nullptr)) lost->close();
  for (const auto& [generation, world] : std::map(worlds_))
    if (world->uses(id)) world->gone(id, why);
  if (const auto at = servers_.find(id);
      at != servers_.end() && !at->second.child && !at->second.connection && !at->second.restart && !gate_->holds(id))
    servers_.erase(at);  // that of an extension, which may be gone as well
}

// The process is left alone until ranks are to run in its place. It may be about to end by itself. Where its node is
// cut off no other step can start, and an srun that tries is in the way when the node is back.
void RankServers::give_up(const ServerId& id, const std::string& why) {
  if (const auto at = servers_.find(id); at != servers_.end() && at->second.child && at->second.child->running())
    at->second.loss_known = at->second.given_up = true;
  lose(id, why);
}

// An srun that gets SIGTERM kills its step, also where the processes of that stand still. A child has no srun, and
// takes SIGTERM for a notice of Slurm's.
void RankServers::end(const ServerId& id) {
  Server& server = servers_.at(id);
  if (server.kill) return;
  server.child->signal(is_child(id) ? SIGKILL : SIGTERM);
  server.kill = loop_.after(settings_.term_to_kill, [this, id] { servers_.at(id).child->signal(SIGKILL); });
}

void RankServers::beat() {
  std::vector<ServerId> silent;
  for (auto& [id, server] : servers_) {
    if (!server.connection) continue;
    server.connection->send(wire::Heartbeat{});
    if (++server.missed > kMissedHeartbeats) silent.push_back(id);
  }
  for (const ServerId& id : silent)
    give_up(id, "the rank server on " + id.node + " has been silent for " + std::to_string(kMissedHeartbeats) +
                    " heartbeats");
}

std::unique_ptr<Ranks> RankServers::run(const WorldRequest& request, RanksCallbacks callbacks) {
  ServedRanks::Links links;
  links.send = [this](const ServerId& id, std::string frame) {
    if (const auto at = servers_.find(id); at != servers_.end() && at->second.connection)
      at->second.connection->send_encoded(std::move(frame));
  };
  links.unread = [this](const ServerId& id) {
    const auto at = servers_.find(id);
    return at != servers_.end() && at->second.connection ? at->second.connection->unread() : 0;
  };
  links.forget = [this, generation = request.generation] { worlds_.erase(generation); };
  WorldRequest limited = request;
  limited.limits = settings_.limits;
  auto ranks = std::make_unique<ServedRanks>(loop_, limited, settings_.start, std::move(links), std::move(callbacks));
  worlds_[request.generation] = ranks.get();
  for (const auto& [id, server] : servers_) {
    if (server.connection && ranks->uses(id)) ranks->came(id, server.base64);
    if (ranks->uses(id)) restart_now(id);  // it may have waited for long
    // Not at once: whoever called this does not have the ranks yet.
    if (server.refuses && ranks->uses(id))
      loop_.defer([this, id = id, generation = request.generation] {
        if (const auto at = worlds_.find(generation); at != worlds_.end())
          at->second->gone(id, "no ranks can run on " + id.node);
      });
  }
  return ranks;
}

void RankServers::finish_output(std::chrono::milliseconds limit) { output_.drain(limit); }

}  // namespace espalier::launcher
