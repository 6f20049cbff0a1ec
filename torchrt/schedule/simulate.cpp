#include "torchrt/schedule/simulate.hpp"

#include <algorithm>
#include <deque>
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
  using Key = std::tuple<int, int, OpKind, int>;  // stage, TP rank, kind of the start, unit

  Key key(std::size_t rank, OpKind kind, int unit) const {
    const RankLayout& self = schedule_.layout.ranks[rank];
    return {self.stage, self.tp_rank, kind, unit};
  }

  bool step(std::size_t rank) {
    const Op& op = schedule_.ranks[rank][next_[rank]];
    double& clock = clock_[rank];
    if (op.kind == OpKind::agree) return false;
    if (is_receive(op.kind)) {
      std::deque<double>& arrivals = flying_[{op.peer, static_cast<int>(rank), lane_of(op)}];
      if (arrivals.empty()) return false;
      clock = std::max(clock, arrivals.front());
      arrivals.pop_front();
    } else if (is_send(op.kind)) {
      flying_[{static_cast<int>(rank), op.peer, lane_of(op)}].push_back(clock + duration(rank, op));
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
  std::map<std::tuple<int, int, Lane>, std::deque<double>> flying_;  // arrivals, by sender, receiver and lane
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
