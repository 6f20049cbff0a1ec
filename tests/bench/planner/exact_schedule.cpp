#include "tests/bench/planner/exact_schedule.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "planner/core/pipeline/placement.hpp"

namespace espalier::bench {
namespace {

using pipeline::ChunkCosts;
using pipeline::Compute;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-9;

struct Counts {
  std::int8_t forward = 0, backward = 0, split = 0, weight = 0;  // split: I among the backwards
  auto operator<=>(const Counts&) const = default;
};
using Key = std::vector<Counts>;  // by chunk

struct State {
  double last_start = 0;
  std::vector<double> free;                  // by rank: the end of what it runs
  std::vector<std::vector<double>> forward;  // by chunk: when inputs of micro-batches that have not started are there
  std::vector<std::vector<double>> backward;
};

class Exact {
 public:
  Exact(const pipeline::SearchProblem& problem, double upper, std::size_t most_states)
      : problem_(problem),
        chunks_(problem.rank_of_chunk.size()),
        on_rank_(pipeline::chunks_of_ranks(problem.rank_of_chunk, problem.ranks)),
        best_(upper),
        most_states_(most_states) {
    for (std::size_t c = 0; c < chunks_; ++c) {
      const ChunkCosts& cost = problem.costs[c];
      shortest_backward_.push_back(std::min(cost.backward, cost.backward_input));
      least_backward_work_.push_back(std::min(cost.backward, cost.backward_input + cost.backward_weight));
    }
    after_backward_.assign(chunks_, 0);
    for (std::size_t c = 0; c < chunks_; ++c) {
      // After the I of the chunk: its own W, or the way down to the first chunk.
      const double own = least_backward_work_[c] - shortest_backward_[c];
      const double on =
          c == 0 ? 0
                 : hop(c, c - 1, problem.costs[c].send_backward) + shortest_backward_[c - 1] + after_backward_[c - 1];
      after_backward_[c] = std::max(own, on);
    }
    after_forward_.assign(chunks_, 0);
    for (std::size_t c = chunks_; c-- > 0;)
      after_forward_[c] = c + 1 == chunks_ ? shortest_backward_[c] + after_backward_[c]
                                           : hop(c, c + 1, problem.costs[c].send_forward) +
                                                 problem.costs[c + 1].forward + after_forward_[c + 1];
  }

  ExactTime run() {
    State start;
    start.free.assign(static_cast<std::size_t>(problem_.ranks), 0);
    start.forward.resize(chunks_);
    start.backward.resize(chunks_);
    start.forward[0].assign(static_cast<std::size_t>(problem_.micro_batches), 0);
    std::map<Key, std::vector<State>> level{{Key(chunks_), {start}}};
    ExactTime result;
    while (!level.empty()) {
      std::map<Key, std::vector<State>> next;
      for (const auto& [key, states] : level)
        for (const State& state : states) {
          if (++result.states > most_states_) return result;
          expand(key, state, next);
        }
      level = std::move(next);
    }
    result.proven = true;
    if (found_) result.time = best_;
    return result;
  }

 private:
  std::size_t rank_of(std::size_t chunk) const { return static_cast<std::size_t>(problem_.rank_of_chunk[chunk]); }
  double hop(std::size_t from, std::size_t to, double seconds) const {
    return rank_of(from) == rank_of(to) ? 0 : seconds;
  }

  double held(const Key& key, std::size_t rank) const {
    double sum = 0;
    for (const int chunk : on_rank_[rank]) {
      const auto c = static_cast<std::size_t>(chunk);
      const ChunkCosts& cost = problem_.costs[c];
      const Counts& at = key[c];
      const int whole = at.backward - at.split;
      sum += cost.activation * (at.forward - whole) - cost.freed_by_input * at.split -
             (cost.activation - cost.freed_by_input) * at.weight;
    }
    return sum;
  }

  void expand(const Key& key, const State& state, std::map<Key, std::vector<State>>& next) {
    for (std::size_t c = 0; c < chunks_; ++c) {
      const std::size_t rank = rank_of(c);
      const Counts& at = key[c];
      const ChunkCosts& cost = problem_.costs[c];
      const double free = std::max(state.free[rank], state.last_start);
      // Anything else of the rank that could end before: it would run first, in time that is lost otherwise.
      const double sooner = fills_gap(key, state, rank, free);
      const auto try_step = [&](Compute kind, double there) {
        const double begin = std::max(free, there);
        if (there == kNever || begin >= sooner - kTiny) return;
        start(key, state, c, kind, begin, next);
      };
      if (at.forward < problem_.micro_batches && !state.forward[c].empty() &&
          (problem_.memory.empty() || held(key, rank) + cost.activation <= problem_.memory[rank] + kTiny))
        try_step(Compute::forward, state.forward[c].front());
      if (!state.backward[c].empty()) {
        try_step(Compute::backward_input, state.backward[c].front());
        if (cost.backward < cost.backward_input + cost.backward_weight)
          try_step(Compute::backward, state.backward[c].front());
      }
      if (at.weight < at.split) try_step(Compute::backward_weight, 0);
    }
  }

  // The earliest end of a W of the rank, plus nothing: whatever starts later than that may let W go first, which takes
  // no memory and delays nothing.
  double fills_gap(const Key& key, const State&, std::size_t rank, double free) const {
    double soonest = kNever;
    for (const int chunk : on_rank_[rank]) {
      const auto c = static_cast<std::size_t>(chunk);
      if (key[c].weight < key[c].split) soonest = std::min(soonest, free + problem_.costs[c].backward_weight);
    }
    return soonest == kNever ? kNever : soonest + 2 * kTiny;
  }

  void start(const Key& key, const State& state, std::size_t c, Compute kind, double begin,
             std::map<Key, std::vector<State>>& next) {
    const ChunkCosts& cost = problem_.costs[c];
    Key after = key;
    State then = state;
    Counts& at = after[c];
    double seconds = 0;
    switch (kind) {
      case Compute::forward:
        seconds = cost.forward;
        ++at.forward;
        then.forward[c].erase(then.forward[c].begin());
        if (c + 1 < chunks_) then.forward[c + 1].push_back(begin + seconds + hop(c, c + 1, cost.send_forward));
        else then.backward[c].push_back(begin + seconds);
        break;
      case Compute::backward_weight:
        seconds = cost.backward_weight;
        ++at.weight;
        break;
      default:
        seconds = kind == Compute::backward ? cost.backward : cost.backward_input;
        ++at.backward;
        if (kind == Compute::backward_input) ++at.split;
        then.backward[c].erase(then.backward[c].begin());
        if (c > 0) then.backward[c - 1].push_back(begin + seconds + hop(c, c - 1, cost.send_backward));
    }
    then.free[rank_of(c)] = begin + seconds;
    then.last_start = begin;
    if (bound(after, then) >= best_ - kTiny) return;
    if (whole(after)) {
      best_ = *std::max_element(then.free.begin(), then.free.end());
      found_ = true;
      return;
    }
    // Nothing starts before the last start any more.
    for (double& free : then.free) free = std::max(free, begin);
    for (auto* sides : {&then.forward, &then.backward})
      for (auto& times : *sides)
        for (double& time : times) time = std::max(time, begin);
    keep(next[after], std::move(then));
  }

  bool whole(const Key& key) const {
    return std::all_of(key.begin(), key.end(), [&](const Counts& at) {
      return at.backward == problem_.micro_batches && at.weight == at.split;
    });
  }

  double bound(const Key& key, const State& state) const {
    double bound = 0;
    std::vector<double> left(state.free.size());
    for (std::size_t c = 0; c < chunks_; ++c) {
      const ChunkCosts& cost = problem_.costs[c];
      const Counts& at = key[c];
      const int forwards = problem_.micro_batches - at.forward, backwards = problem_.micro_batches - at.backward;
      left[rank_of(c)] +=
          forwards * cost.forward + backwards * least_backward_work_[c] + (at.split - at.weight) * cost.backward_weight;
      const double now = std::max(state.free[rank_of(c)], state.last_start);
      if (forwards > 0) {
        const double begin = state.forward[c].empty() ? now : std::max(now, state.forward[c].front());
        bound = std::max(bound, begin + forwards * cost.forward + after_forward_[c]);
      }
      if (backwards > 0) {
        const double begin = state.backward[c].empty() ? now : std::max(now, state.backward[c].front());
        bound = std::max(bound, begin + backwards * shortest_backward_[c] + after_backward_[c]);
      }
    }
    for (std::size_t rank = 0; rank < left.size(); ++rank)
      bound = std::max(bound,
                       left[rank] > 0 ? std::max(state.free[rank], state.last_start) + left[rank] : state.free[rank]);
    return bound;
  }

  static bool no_later(const State& a, const State& b) {
    for (std::size_t r = 0; r < a.free.size(); ++r)
      if (a.free[r] > b.free[r]) return false;
    for (std::size_t c = 0; c < a.forward.size(); ++c) {
      for (std::size_t i = 0; i < a.forward[c].size(); ++i)
        if (a.forward[c][i] > b.forward[c][i]) return false;
      for (std::size_t i = 0; i < a.backward[c].size(); ++i)
        if (a.backward[c][i] > b.backward[c][i]) return false;
    }
    return true;
  }

  static void keep(std::vector<State>& states, State&& state) {
    for (const State& other : states)
      if (no_later(other, state)) return;
    std::erase_if(states, [&](const State& other) { return no_later(state, other); });
    states.push_back(std::move(state));
  }

  const pipeline::SearchProblem& problem_;
  const std::size_t chunks_;
  const std::vector<std::vector<int>> on_rank_;
  double best_;
  const std::size_t most_states_;
  bool found_ = false;
  std::vector<double> shortest_backward_, least_backward_work_;
  std::vector<double> after_forward_,
      after_backward_;  // from the end of the pass to the end of its micro-batch, at least
};

}  // namespace

ExactTime exact_time(const pipeline::SearchProblem& problem, double upper, std::size_t most_states) {
  return Exact(problem, upper, most_states).run();
}

}  // namespace espalier::bench
