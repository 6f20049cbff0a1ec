#include "tests/sim/keepers.hpp"

#include <cmath>

#include "planner/wire/clock.hpp"
#include "tests/sim/history.hpp"

namespace espalier::sim {

void Keepers::start(const SimJob& job) {
  auto keeper = std::make_shared<Keeper>();
  keeper->party = std::make_shared<Party>();
  keeper->party->name = "keeper " + std::to_string(job.id);
  keeper->party->node = job.holdings.front().node;
  keeper->job = job.id;
  keeper->anchor = job.anchor;
  for (const std::string& entry : job.environment) {
    if (!entry.starts_with("ESPALIER_LAUNCHER=")) continue;
    const auto colon = entry.rfind(':');
    keeper->host = entry.substr(18, colon - 18);
    keeper->port = static_cast<std::uint16_t>(std::stoul(entry.substr(colon + 1)));
  }
  keeper->tenure = std::make_unique<launcher::Tenure>(
      wire::steady_now(), std::chrono::milliseconds(std::lround(history_.config.heartbeat_seconds * 1000)));
  all_[job.id] = keeper;
  history_.note([&] { return keeper->party->name + ": starts on " + keeper->party->node; });
  look(keeper);
  tick(keeper);
}

void Keepers::look(const KeeperPtr& keeper) {
  if (!keeper->tenure->looks(wire::steady_now())) return leave(keeper);
  const auto again = [this, keeper] {
    keeper->line.reset();
    const Seconds pause = keeper->tenure->looks(wire::steady_now()) ? 0.1 : 0;
    history_.timeline.at(history_.timeline.now() + pause, keeper->party, [this, keeper] { look(keeper); });
  };
  history_.network.connect(
      keeper->party, keeper->host, keeper->port, wire::Service::keeper,
      [this, keeper, again](const EndPtr& line) {
        keeper->line = line;
        line->on_closed = [again](const std::string&) { again(); };
        line->on_frame = [this, keeper, again](const wire::Frame& frame) {
          if (!keeper->tenure->hears(frame.type, wire::steady_now())) {
            keeper->line->close();
            again();
          } else {
            if (frame.type == wire::Keep::type) keeper->keep = wire::from_frame<wire::Keep>(frame);
            turn(keeper);
          }
        };
        line->send(wire::KeeperHello{keeper->job, keeper->party->node, true});
        keeper->tenure->connected(wire::steady_now());
      },
      [again](const std::string&) { again(); });
}

void Keepers::turn(const KeeperPtr& keeper) {
  if (!keeper->line || !keeper->party->alive || keeper->leaving) return;
  const launcher::Tenure::Turn turn = keeper->tenure->turn(wire::steady_now());
  if (turn.notice) keeper->line->send(wire::Notice{keeper->job});
  if (turn.heartbeat) keeper->line->send(wire::Heartbeat{});
  if (!turn.lost) return;
  history_.note([&] { return keeper->party->name + ": has not heard of its launcher for too long"; });
  keeper->line->close();
  keeper->line.reset();
  look(keeper);
}

void Keepers::tick(const KeeperPtr& keeper) {
  history_.timeline.at(history_.timeline.now() + history_.config.heartbeat_seconds, keeper->party, [this, keeper] {
    turn(keeper);
    if (!keeper->leaving) tick(keeper);
  });
}

// The keeper fences its node and ends. Slurm completes the job as soon as slurmctld hears of that.
void Keepers::leave(const KeeperPtr& keeper) {
  if (keeper->leaving || history_.mutant == Mutant::immortal_keeper) return;
  keeper->leaving = true;
  history_.note([&] { return keeper->party->name + ": fences and leaves"; });
  history_.timeline.at(history_.timeline.now() + history_.random.real(0.02, 0.3), keeper->party, [this, keeper] {
    history_.training->kill_steps(keeper->job);
    kill(keeper, false);
  });
}

void Keepers::signal(JobId job) {
  const KeeperPtr& keeper = all_.at(job);
  keeper->tenure->signalled();
  turn(keeper);
}

bool Keepers::keeps(JobId job) const {
  const auto at = all_.find(job);
  return at != all_.end() && at->second->party->alive;
}

bool Keepers::kept(JobId job, int generation) const {
  const auto at = all_.find(job);
  return at != all_.end() && generation >= at->second->keep.generation;
}

void Keepers::kill(JobId job) {
  if (const auto at = all_.find(job); at != all_.end()) kill(at->second, false);
}

void Keepers::kill(const KeeperPtr& keeper, bool with_node) {
  if (!keeper->party->alive) return;
  keeper->party->alive = false;
  history_.network.died(keeper->party, with_node);
  keeper->line.reset();
  if (with_node) return;
  const auto tell = std::make_shared<Callback>();
  *tell = [this, id = keeper->job, node = keeper->party->node, weak = std::weak_ptr(tell)] {
    if (history_.network.reaches(node, History::kHead)) return history_.slurm->over(id);
    if (const auto self = weak.lock())
      history_.timeline.at(history_.timeline.now() + 0.5, nullptr, [self] { (*self)(); });
  };
  history_.timeline.at(history_.timeline.now() + 0.02, nullptr, [tell] { (*tell)(); });
}

}  // namespace espalier::sim
