// The launcher's control socket. Whoever logs in there has shown that it is of this user, and that it knows the job's
// token (planner/wire/handshake.hpp). The socket finds out which process it is and hands the connection on. It also
// makes the variables by which processes of the job find the socket.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/slurm/job_context.hpp"
#include "planner/wire/capabilities.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/rank_messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class ControlSocket {
 public:
  // All but `ending` may throw Error: the connection is refused with its text.
  struct Callbacks {
    std::function<bool()> ending;      // the job ends: workers are refused, and keepers are told to give back
    std::function<bool()> superseded;  // a movable job has another launcher: all its keepers are that one's
    std::function<void(const wire::ConnectionPtr&, const wire::WorkerHello&)> worker;
    std::function<void(const wire::ConnectionPtr&, const wire::KeeperHello&)> extension_keeper;
    std::function<void(const wire::ConnectionPtr&, const wire::KeeperHello&)> anchor_keeper;
    std::function<void(const wire::ConnectionPtr&, const wire::KeeperHello&)> base_keeper;  // of a movable job
    std::function<void(const wire::ConnectionPtr&, const wire::RankServerHello&)> rank_server;
  };
  // Listens on a random port of every interface. Throws Error. `folder`: the job's scratch directory.
  ControlSocket(wire::Loop& loop, const JobContext& context, std::filesystem::path folder, Callbacks callbacks);

  // The variables of a rank of `generation`, without the token: they travel to rank servers, which have it.
  std::vector<std::string> environment(int generation) const;
  // The variables of a keeper or a rank server, which Slurm or this process starts. With the token.
  std::vector<std::string> job_environment() const;

  // A keeper has logged in and said hello. Throws Error when it is refused.
  void greet_keeper(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello);

 private:
  void incoming(const wire::ConnectionPtr& connection);
  void greet_worker(const wire::ConnectionPtr& connection, const wire::WorkerHello& hello);

  const JobContext& context_;
  const std::filesystem::path folder_;
  Callbacks callbacks_;
  const std::string token_, address_;
  std::unique_ptr<wire::Listener> listener_;
};

}  // namespace espalier::launcher
