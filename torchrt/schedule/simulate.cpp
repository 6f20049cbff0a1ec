#include "torchrt/schedule/simulate.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        next_(schedule.ranks.size(), 0),
        clock_(schedule.ranks.size(), 0.0),
        busy_(schedule.ranks.size(), 0.0) {}

  Simulation run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < schedule_.ranks[rank].size() && step(rank)) progress = true;
      progress = agree() || progress;
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      ESPALIER_INVARIANT(next_[rank] == schedule_.ranks[rank].size());
    return {*std::max_element(clock_.begin(), clock_.end()), busy_};
  }

 private:
  // A collective of a replica group.
  struct Collective {
    int started = 0;
    double end = 0;
  };
  // What one rank sends another in one lane.
  struct Route {
    std::vector<double> arrivals;  // in the order of sending
    std::size_t received = 0;      // receives that have begun
  };
  struct Awaited {
    const Route* route = nullptr;
    std::size_t place = 0;
  };
  using Consumer = std::tuple<std::size_t, OpKind, int, int>;  // rank, kind, chunk and micro-batch; tied: unit and row
  using Key = std::tuple<int, int, OpKind, int>;               // stage, TP rank, kind of the start, unit

  Key key(std::size_t rank, OpKind kind, int unit) const {
    const RankLayout& self = schedule_.layout.ranks[rank];
    return {self.stage, self.tp_rank, kind, unit};
  }

  bool step(std::size_t rank) {
    const Op& op = schedule_.ranks[rank][next_[rank]];
    double& clock = clock_[rank];
    if (op.kind == OpKind::agree) return false;
    if (is_receive(op.kind)) {
      Route& route = routes_[{op.peer, static_cast<int>(rank), lane_of(op)}];
      awaited_[awaiting(rank, op)].push_back({&route, route.received++});
    } else if (!arrived(rank, op)) {
      return false;
    } else if (is_send(op.kind)) {
      routes_[{static_cast<int>(rank), op.peer, lane_of(op)}].arrivals.push_back(clock + duration(rank, op));
    } else if (op.kind == OpKind::reduce || op.kind == OpKind::gather) {
      start(rank, op);
    } else if (op.kind == OpKind::finish_reduce || op.kind == OpKind::finish_gather) {
      const Collective& one =
          collectives_[key(rank, op.kind == OpKind::finish_reduce ? OpKind::reduce : OpKind::gather, op.unit)];
      if (one.started < schedule_.layout.ranks[rank].replicas) return false;
      clock = std::max(clock, one.end);
    } else {
      const double seconds = duration(rank, op);
      clock += seconds;
      if (op.kind == OpKind::forward || op.kind == OpKind::backward || op.kind == OpKind::weight_gradient)
        busy_[rank] += seconds;
    }
    ++next_[rank];
    return true;
  }

  // The operation that waits for what `op` receives, and that operation itself.
  static Consumer awaiting(std::size_t rank, const Op& op) {
    switch (op.kind) {
      case OpKind::receive_activation:
      case OpKind::forward:
        return {rank, OpKind::forward, op.chunk, op.micro_batch};
      case OpKind::receive_gradient:
      case OpKind::backward:
        return {rank, OpKind::backward, op.chunk, op.micro_batch};
      default:
        return {rank, op.kind == OpKind::receive_tied ? OpKind::add_tied : op.kind, op.unit, op.first};
    }
  }
  // False: a message that `op` needs has not been sent yet. Else the rank's clock is at its arrival, or later.
  bool arrived(std::size_t rank, const Op& op) {
    const auto found = awaited_.find(awaiting(rank, op));
    if (found == awaited_.end()) return true;
    for (const Awaited& one : found->second) {
      if (one.place >= one.route->arrivals.size()) return false;
      clock_[rank] = std::max(clock_[rank], one.route->arrivals[one.place]);
    }
    awaited_.erase(found);
    return true;
  }

  double duration(std::size_t rank, const Op& op) const { return durations_(static_cast<int>(rank), op); }

  // A group's collectives run one after the other. Each begins when its last member has started it.
  void start(std::size_t rank, const Op& op) {
    const RankLayout& self = schedule_.layout.ranks[rank];
    Collective& one = collectives_[key(rank, op.kind, op.unit)];
    one.end = std::max(one.end, clock_[rank]);
    if (++one.started < self.replicas) return;
    double& channel = channels_[{self.stage, self.tp_rank}];
    one.end = channel = std::max(one.end, channel) + duration(rank, op);
  }

  bool agree() {
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] >= schedule_.ranks[rank].size() || schedule_.ranks[rank][next_[rank]].kind != OpKind::agree)
        return false;
    double last = 0;
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      last = std::max(last, clock_[rank] + duration(rank, schedule_.ranks[rank][next_[rank]]));
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      clock_[rank] = last;
      ++next_[rank];
    }
    return true;
  }

  const Schedule& schedule_;
  const Durations& durations_;
  std::vector<std::size_t> next_;
  std::vector<double> clock_, busy_;
  std::map<std::tuple<int, int, Lane>, Route> routes_;  // by sender, receiver and lane
  std::map<Consumer, std::vector<Awaited>> awaited_;
  std::map<Key, Collective> collectives_;
  std::map<std::pair<int, int>, double> channels_;  // when a replica group is free again
};

}  // namespace

double Simulation::bubble() const {
  const double work = std::accumulate(busy.begin(), busy.end(), 0.0);
  return makespan > 0 ? 1 - work / (makespan * static_cast<double>(busy.size())) : 0;
}

Simulation simulate(const Schedule& schedule, const Durations& durations) {
  return Simulator(schedule, durations).run();
}

}  // namespace espalier::torchrt
