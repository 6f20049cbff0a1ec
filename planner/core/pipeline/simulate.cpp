#include "planner/core/pipeline/simulate.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::pipeline {
namespace {

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule),
        costs_(costs),
        forward_(costs.size() * static_cast<std::size_t>(schedule.micro_batches), kNever),
        backward_(forward_) {
    ESPALIER_INVARIANT(costs.size() == schedule.rank_of_chunk.size());
    result_.ranks.resize(schedule.actions.size());
    result_.spans.resize(schedule.actions.size());
    clock_.resize(schedule.actions.size());
    held_.resize(schedule.actions.size());
  }

  Simulation run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < clock_.size(); ++rank)
        while (result_.spans[rank].size() < schedule_.actions[rank].size() && step(rank)) progress = true;
    }
    for (std::size_t rank = 0; rank < clock_.size(); ++rank) {
      ESPALIER_INVARIANT(result_.spans[rank].size() == schedule_.actions[rank].size());
      RankFigures& figures = result_.ranks[rank];
      if (!result_.spans[rank].empty()) figures.first = result_.spans[rank].front().start;
      figures.last = clock_[rank];
      result_.time = std::max(result_.time, clock_[rank]);
    }
    return std::move(result_);
  }

 private:
  static constexpr double kNever = -1;

  std::size_t cell(int chunk, int micro_batch) const {
    return static_cast<std::size_t>(chunk) * schedule_.micro_batches + micro_batch;
  }
  int owner(int chunk) const { return schedule_.rank_of_chunk[static_cast<std::size_t>(chunk)]; }

  // When what the action needs from another chunk is there: kNever while that has not run.
  double arrival(const Action& action) const {
    const bool forward = action.kind == Compute::forward;
    const int from = action.chunk + (forward ? -1 : 1);
    if (action.kind == Compute::backward_weight || from < 0 || from >= static_cast<int>(costs_.size())) return 0;
    const double done = (forward ? forward_ : backward_)[cell(from, action.micro_batch)];
    if (done == kNever || owner(from) == owner(action.chunk)) return done;
    const ChunkCosts& sender = costs_[static_cast<std::size_t>(from)];
    return done + (forward ? sender.send_forward : sender.send_backward);
  }

  bool step(std::size_t rank) {
    const Action& action = schedule_.actions[rank][result_.spans[rank].size()];
    const ChunkCosts& cost = costs_[static_cast<std::size_t>(action.chunk)];
    const double ready = arrival(action);
    if (ready == kNever) return false;
    const double start = std::max(clock_[rank], ready);
    double time = 0, freed = 0;
    switch (action.kind) {
      case Compute::forward:
        time = cost.forward;
        break;
      case Compute::backward:
        time = cost.backward, freed = cost.activation;
        break;
      case Compute::backward_input:
        time = cost.backward_input, freed = cost.freed_by_input;
        break;
      case Compute::backward_weight:
        time = cost.backward_weight, freed = cost.activation - cost.freed_by_input;
        break;
    }
    const double end = start + time;
    RankFigures& figures = result_.ranks[rank];
    if (action.kind == Compute::forward) {
      forward_[cell(action.chunk, action.micro_batch)] = end;
      figures.peak = std::max(figures.peak, held_[rank] += cost.activation);
    } else if (action.kind != Compute::backward_weight) {
      backward_[cell(action.chunk, action.micro_batch)] = end;
    }
    held_[rank] -= freed;
    figures.busy += time;
    result_.spans[rank].push_back({start, end});
    clock_[rank] = end;
    return true;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<double> forward_, backward_;  // ends, by chunk and micro-batch
  std::vector<double> clock_, held_;        // by rank
  Simulation result_;
};

double idle_share(double busy, double whole) { return whole > 0 ? 1 - busy / whole : 0; }

}  // namespace

double Simulation::bubble(int rank) const { return idle_share(ranks[static_cast<std::size_t>(rank)].busy, time); }

double Simulation::bubble() const {
  double busy = 0;
  for (const RankFigures& rank : ranks) busy += rank.busy;
  return idle_share(busy, time * static_cast<double>(ranks.size()));
}

double Simulation::span_bubble(int rank) const {
  const RankFigures& figures = ranks[static_cast<std::size_t>(rank)];
  return idle_share(figures.busy, figures.last - figures.first);
}

double Simulation::span_bubble() const {
  double busy = 0, span = 0;
  for (const RankFigures& rank : ranks) busy += rank.busy, span += rank.last - rank.first;
  return idle_share(busy, span);
}

double Simulation::peak() const {
  double most = 0;
  for (const RankFigures& rank : ranks) most = std::max(most, rank.peak);
  return most;
}

Simulation simulate(const Schedule& schedule, const Costs& costs) { return Simulator(schedule, costs).run(); }

}  // namespace espalier::pipeline
