#include "planner/core/pipeline/improve.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/pipeline/local_moves.hpp"

namespace espalier::pipeline {
namespace {

// A change of one rank's order, which can be taken back.
class Change {
 public:
  Change(const SearchProblem& problem, Order& order, Chance& chance)
      : problem_(problem), order_(order), chance_(chance) {}

  // False: the change does nothing, or needs too much memory. Then nothing has changed.
  bool apply(const std::vector<Place>& path) {
    // A run of the path on one rank: between two steps that wait for data.
    const int pick = chance_.below(static_cast<int>(path.size()));
    const Place chosen = path[static_cast<std::size_t>(pick)];
    rank_ = static_cast<std::size_t>(chosen.rank);
    int begin = pick, end = pick;  // the path goes back in time
    const auto adjoins = [&](int later, int earlier) {
      const Place &a = path[static_cast<std::size_t>(later)], &b = path[static_cast<std::size_t>(earlier)];
      return a.rank == b.rank && a.at == b.at + 1;
    };
    while (end > 0 && adjoins(end - 1, end)) --end;
    while (begin + 1 < static_cast<int>(path.size()) && adjoins(begin, begin + 1)) ++begin;
    const int first = path[static_cast<std::size_t>(begin)].at, last = path[static_cast<std::size_t>(end)].at;
    RankOrder& steps = order_[rank_];
    saved_ = steps;
    if (!alter(steps, chosen.at, first, last)) return false;
    if (!problem_.memory.empty() && !within(peak_of(steps, problem_.costs), problem_.memory[rank_])) {
      undo();
      return false;
    }
    return true;
  }
  void undo() { order_[rank_].swap(saved_); }

 private:
  bool alter(RankOrder& steps, int at, int first, int last) {
    const Step step = steps[static_cast<std::size_t>(at)];
    const ChunkCosts& cost = problem_.costs[static_cast<std::size_t>(step.chunk)];
    const int dice = chance_.below(8);
    if (dice == 0 && step.kind == Compute::backward) return split_backward(steps, at), true;
    if (dice == 0 && step.kind == Compute::backward_input && cost.backward < cost.backward_input + cost.backward_weight)
      return join_backward(steps, at, chance_.below(2) == 0);
    // The last step of a run should come earlier: before others of the run. The first one should leave the data's way,
    // and any other the run.
    const Reach free = reach(steps, at);
    if (free.first == free.last) return false;
    int low = free.first, high = free.last;
    const int kind = chance_.below(4);
    if (kind == 0) {
      low = std::max(low, first - 2), high = std::min(high, last + 2);
    } else if (kind == 1) {
      high = std::min(high, std::max(low, first)), low = std::max(low, first - 6);
    } else if (kind == 2) {
      low = std::max(low, std::min(high, last)), high = std::min(high, last + 6);
    }
    if (low > high) return false;
    const int to = low + chance_.below(high - low + 1);
    if (to == at) return false;
    move_step(steps, at, to);
    return true;
  }

  const SearchProblem& problem_;
  Order& order_;
  Chance& chance_;
  std::size_t rank_ = 0;
  RankOrder saved_;
};

}  // namespace

std::uint64_t Chance::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

double improve(const SearchProblem& problem, Graph& graph, Order& order, Chance& chance, std::int64_t& work,
               double enough) {
  const std::int64_t all = work;
  double best = *graph.time(order), now = best;
  // Among orders of the same time, those whose ranks end early are closer to a faster one.
  const double share = 0.02 / problem.ranks;
  double energy = now + share * graph.sum_of_ends();
  double mean = 0;
  for (const ChunkCosts& cost : problem.costs) mean += (cost.forward + cost.backward_input + cost.backward_weight) / 3;
  mean /= static_cast<double>(problem.costs.size());
  Order current = order;
  std::vector<Place> path = graph.critical_path(current);
  Change change(problem, current, chance);
  const auto steps = graph.nodes() + 8;
  while (work > 0 && best > enough) {
    const double heat = 0.25 * mean * static_cast<double>(work) / static_cast<double>(all);
    work -= 8;
    if (!change.apply(path)) continue;
    work -= steps;
    const auto time = graph.time(current);
    const double after = time ? *time + share * graph.sum_of_ends() : 0;
    if (!time || after > energy - heat * std::log(chance.unit() + 1e-300)) {
      change.undo();
      continue;
    }
    energy = after;
    now = *time;
    path = graph.critical_path(current);
    work -= steps / 4;
    if (now < best * (1 - 1e-12)) {
      best = now;
      order = current;
    }
  }
  return best;
}

}  // namespace espalier::pipeline
