#include "launcher/conform/rank_host.hpp"

#include "launcher/process/resource_limits.hpp"

namespace espalier::launcher::conform {
namespace {
constexpr int kGpus = 64;
}

RankHost::RankHost(wire::Loop& loop, const wire::Door& door, const std::string& launcher)
    : loop_(loop), door_(door), launcher_(launcher) {
  listener_ = wire::listen_tcp(loop_, door_, "127.0.0.1", 0, [this](const wire::ConnectionPtr& made) {
    made->on_frame = [this, raw = made.get()](const wire::Frame& frame) {
      const wire::ConnectionPtr self = raw->shared_from_this();
      if (frame.type == wire::RankServerHello::type)
        servers_->adopt(self, wire::from_frame<wire::RankServerHello>(frame));
    };
    made->on_closed = [](const std::string&) {};
  });
}

void RankHost::start(std::vector<std::string> environment) {
  RankServersSettings own;
  own.launcher = launcher_;
  own.node = kStageNode;
  own.anchor = door_.job;
  own.holdings = holdings();
  own.limits = resource_limits();
  own.environment = std::move(environment);
  own.environment.push_back("ESPALIER_TOKEN=" + door_.token);
  servers_ = std::make_unique<RankServers>(loop_, own, [](JobId) {});
  servers_->start();
}

std::vector<Holding> RankHost::holdings() const {
  Holding all{door_.job, kStageNode, {}};
  for (int gpu = 0; gpu < kGpus; ++gpu) all.gpus.push_back(gpu);
  return {all};
}

}  // namespace espalier::launcher::conform
