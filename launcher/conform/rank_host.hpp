// The rank server of the stage: a child process that starts ranks. No Slurm is asked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/world/rank_servers.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher::conform {

constexpr const char* kStageNode = "stage";

class RankHost {
 public:
  // `launcher`: path of espalier-launch; espalier-ranks is beside it. `door`: who may log in as a rank server. Throws
  // Error.
  RankHost(wire::Loop& loop, const wire::Door& door, const std::string& launcher);

  int port() const { return listener_->port(); }  // where the rank server logs in
  // `environment`: the variables by which it finds that port.
  void start(std::vector<std::string> environment);
  std::vector<Holding> holdings() const;  // all GPUs of the stage
  std::unique_ptr<Ranks> run(const WorldRequest& request, RanksCallbacks callbacks) {
    return servers_->run(request, std::move(callbacks));
  }
  void leave() { servers_->leave(); }
  bool left() const { return servers_->left(); }

 private:
  wire::Loop& loop_;
  const wire::Door door_;
  const std::string launcher_;
  std::unique_ptr<wire::Listener> listener_;
  std::unique_ptr<RankServers> servers_;
};

}  // namespace espalier::launcher::conform
