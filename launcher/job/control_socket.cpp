#include "launcher/job/control_socket.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/job/grace.hpp"
#include "launcher/node/own_address.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"

namespace espalier::launcher {
namespace {

// Random ones below the range from which the kernel gives out ports, so that nobody can take them beforehand and a site
// can open them to its nodes; at last any that is free.
std::vector<std::uint16_t> ports_to_try() {
  constexpr unsigned long kFirst = 20000, kCount = 12000, kTries = 16;
  std::vector<std::uint16_t> ports;
  for (unsigned i = 0; i < kTries; ++i)
    ports.push_back(
        static_cast<std::uint16_t>(kFirst + std::stoul(wire::fresh_nonce().substr(0, 8), nullptr, 16) % kCount));
  ports.push_back(0);
  return ports;
}

}  // namespace

ControlSocket::ControlSocket(wire::Loop& loop, const JobContext& context, std::filesystem::path folder,
                             Callbacks callbacks)
    : context_(context),
      folder_(std::move(folder)),
      callbacks_(std::move(callbacks)),
      token_(wire::fresh_nonce()),
      address_(own_address(context.config.network, context.node)) {
  const wire::Door door{
      {wire::Service::worker, wire::Service::keeper, wire::Service::ranks}, context_.job, token_, ::getuid()};
  std::string why;
  for (const std::uint16_t port : ports_to_try()) {
    try {
      listener_ =
          wire::listen_tcp(loop, door, "0.0.0.0", port, [this](const wire::ConnectionPtr& made) { incoming(made); });
      return;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  throw Error("control socket: no free port: " + why);
}

std::vector<std::string> ControlSocket::environment(int generation) const {
  std::vector<std::string> list{
      "ESPALIER_LAUNCHER=" + address_ + ":" + std::to_string(listener_->port()),
      "ESPALIER_GENERATION=" + std::to_string(generation),
      "ESPALIER_DIRECTORY=" + (folder_ / ("g" + std::to_string(generation))).string(),
      "ESPALIER_ANCHOR=" + std::to_string(context_.job),
      "ESPALIER_ACTIVE=" + std::to_string(context_.job),  // the plugin leaves nested steps alone
      "ESPALIER_VAULT=" + vault_prefix(context_),
      "ESPALIER_RESTARTS=" + std::to_string(context_.restarts),
      "ESPALIER_HEARTBEAT=" + std::to_string(context_.config.heartbeat_seconds),
      "ESPALIER_PATIENCE=" + std::to_string(worker_patience(context_.config))};
  if (context_.movable) list.emplace_back("ESPALIER_MOVABLE=1");
  if (context_.site.binds_cpus) list.emplace_back("ESPALIER_CPU_BIND=none");
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "SLURM_CONF", "ESPALIER_CONF", "HOME", "USER"})
    if (const char* value = std::getenv(name); value != nullptr) list.push_back(std::string(name) + "=" + value);
  return list;
}

std::vector<std::string> ControlSocket::job_environment() const {
  std::vector<std::string> list = environment(0);
  list.push_back("ESPALIER_TOKEN=" + token_);
  return list;
}

void ControlSocket::incoming(const wire::ConnectionPtr& connection) {
  connection->on_frame = [this, connection](const wire::Frame& frame) {
    try {
      const wire::Service service = connection->peer().service;
      if (frame.type == wire::Hello::type && service == wire::Service::worker)
        greet_worker(connection, wire::read_hello(frame));
      else if (frame.type == wire::KeeperHello::type && service == wire::Service::keeper)
        greet_keeper(connection, wire::from_frame<wire::KeeperHello>(frame));
      else if (frame.type == wire::RankServerHello::type && service == wire::Service::ranks)
        callbacks_.rank_server(connection, wire::from_frame<wire::RankServerHello>(frame));
      else throw Error("message " + frame.type + ": the hello of what has logged in is expected first");
    } catch (const Error& error) {
      connection->send(wire::Refused{error.what()});
      connection->close();
    }
  };
  // The closure above must not keep a closed connection alive.
  connection->on_closed = [raw = connection.get()](const std::string&) { raw->on_frame = nullptr; };
}

void ControlSocket::greet_worker(const wire::ConnectionPtr& connection, const wire::WorkerHello& worker) {
  if (callbacks_.ending()) throw Error("worker: the job is ending");
  callbacks_.worker(connection, worker);
}

void ControlSocket::greet_keeper(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
  // First of all: a keeper that comes back is not told to give back what the next launcher needs.
  if (context_.movable && callbacks_.ending() && callbacks_.superseded())
    throw Error("keeper: job " + std::to_string(context_.job) + " has another launcher, which this node is for");
  if (hello.extension) return callbacks_.extension_keeper(connection, hello);
  if (context_.movable && callbacks_.ending()) return connection->send(wire::GiveBack{});
  if (context_.movable) return callbacks_.base_keeper(connection, hello);
  if (hello.job != context_.job) throw Error("keeper: job " + std::to_string(hello.job) + " is not this launcher's");
  if (std::none_of(context_.anchor.begin(), context_.anchor.end(),
                   [&](const Holding& own) { return own.node == hello.node; }))
    throw Error("keeper: " + hello.node + " is no node of this job's own");
  if (callbacks_.ending()) return connection->send(wire::GiveBack{});
  callbacks_.anchor_keeper(connection, hello);
}

}  // namespace espalier::launcher
