#include "planner/core/pipeline/graph.hpp"

#include <algorithm>

namespace espalier::pipeline {

Graph::Graph(const SearchProblem& problem)
    : problem_(problem),
      ranks_(problem.ranks),
      chunks_(static_cast<int>(problem.rank_of_chunk.size())),
      micro_batches_(problem.micro_batches) {
  const auto cells = static_cast<std::size_t>(chunks_) * static_cast<std::size_t>(micro_batches_);
  nodes_ = static_cast<std::int64_t>(cells) * 3;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const ChunkCosts& cost = problem.costs[static_cast<std::size_t>(chunk)];
    seconds_.push_back({cost.forward, cost.backward, cost.backward_input, cost.backward_weight});
    const auto elsewhere = [&](int other) {
      return other >= 0 && other < chunks_ &&
             problem.rank_of_chunk[static_cast<std::size_t>(other)] !=
                 problem.rank_of_chunk[static_cast<std::size_t>(chunk)];
    };
    forward_hop_.push_back(elsewhere(chunk + 1) ? cost.send_forward : 0);
    backward_hop_.push_back(elsewhere(chunk - 1) ? cost.send_backward : 0);
  }
  forward_end_.resize(cells);
  backward_end_.resize(cells);
  forward_place_.resize(cells);
  backward_place_.resize(cells);
  ends_.resize(static_cast<std::size_t>(ranks_));
}

std::optional<double> Graph::time(const Order& order) {
  std::fill(forward_end_.begin(), forward_end_.end(), -1.0);
  std::fill(backward_end_.begin(), backward_end_.end(), -1.0);
  forwards_.assign(static_cast<std::size_t>(chunks_), 0);
  backwards_.assign(static_cast<std::size_t>(chunks_), 0);
  cursors_.assign(static_cast<std::size_t>(ranks_), {});
  waiting_.clear();
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    ends_[static_cast<std::size_t>(rank)].resize(order[static_cast<std::size_t>(rank)].size());
    waiting_.push_back(rank);
  }
  std::size_t finished = 0, all = 0;
  for (const RankOrder& steps : order) all += steps.size();
  while (!waiting_.empty()) {
    const int rank = waiting_.back();
    waiting_.pop_back();
    const RankOrder& steps = order[static_cast<std::size_t>(rank)];
    Cursor& cursor = cursors_[static_cast<std::size_t>(rank)];
    for (; cursor.at < steps.size(); ++cursor.at, ++finished) {
      const Step step = steps[cursor.at];
      const auto chunk = static_cast<std::size_t>(step.chunk);
      double start = cursor.clock;
      int wakes = -1;  // the chunk that may wait for the result
      if (step.kind == Compute::forward) {
        const int m = forwards_[chunk];
        if (chunk > 0) {
          const double done = forward_end_[cell(step.chunk - 1, m)];
          if (done < 0) break;
          start = std::max(start, done + forward_hop_[chunk - 1]);
        }
        forwards_[chunk] = m + 1;
        forward_end_[cell(step.chunk, m)] = start + seconds(step);
        forward_place_[cell(step.chunk, m)] = {rank, static_cast<int>(cursor.at)};
        wakes = step.chunk + 1;
      } else if (step.kind != Compute::backward_weight) {
        const int m = backwards_[chunk];
        if (step.chunk + 1 < chunks_) {
          const double done = backward_end_[cell(step.chunk + 1, m)];
          if (done < 0) break;
          start = std::max(start, done + backward_hop_[chunk + 1]);
        }
        backwards_[chunk] = m + 1;
        backward_end_[cell(step.chunk, m)] = start + seconds(step);
        backward_place_[cell(step.chunk, m)] = {rank, static_cast<int>(cursor.at)};
        wakes = step.chunk - 1;
      }
      cursor.clock = start + seconds(step);
      ends_[static_cast<std::size_t>(rank)][cursor.at] = cursor.clock;
      if (wakes < 0 || wakes >= chunks_) continue;
      // The other rank may stand right at the chunk that is ready now.
      const int other = problem_.rank_of_chunk[static_cast<std::size_t>(wakes)];
      if (other == rank) continue;
      const Cursor& its = cursors_[static_cast<std::size_t>(other)];
      const RankOrder& others = order[static_cast<std::size_t>(other)];
      if (its.at >= others.size() || others[its.at].chunk != wakes) continue;
      const bool forward = others[its.at].kind == Compute::forward;
      if (forward != (step.kind == Compute::forward) || others[its.at].kind == Compute::backward_weight) continue;
      const int needs = (forward ? forwards_ : backwards_)[static_cast<std::size_t>(wakes)];
      if (needs == (forward ? forwards_ : backwards_)[chunk] - 1) waiting_.push_back(other);
    }
  }
  if (finished != all) return std::nullopt;
  double last = 0;
  sum_of_ends_ = 0;
  for (const Cursor& cursor : cursors_) {
    last = std::max(last, cursor.clock);
    sum_of_ends_ += cursor.clock;
  }
  return last;
}

std::vector<Place> Graph::critical_path(const Order& order) const {
  std::vector<Place> path;
  int rank = 0;
  for (int r = 1; r < ranks_; ++r)
    if (cursors_[static_cast<std::size_t>(r)].clock > cursors_[static_cast<std::size_t>(rank)].clock) rank = r;
  // Which micro-batch a step is of follows from the counts: found here by walking back through the rank's order.
  std::vector<std::vector<int>> micro_batch(static_cast<std::size_t>(ranks_));
  const auto of_rank = [&](int r) -> const std::vector<int>& {
    std::vector<int>& numbers = micro_batch[static_cast<std::size_t>(r)];
    if (!numbers.empty()) return numbers;
    std::vector<std::pair<int, int>> counts(static_cast<std::size_t>(chunks_));
    for (const Step& step : order[static_cast<std::size_t>(r)]) {
      auto& [forward, backward] = counts[static_cast<std::size_t>(step.chunk)];
      numbers.push_back(step.kind == Compute::forward           ? forward++
                        : step.kind == Compute::backward_weight ? -1
                                                                : backward++);
    }
    return numbers;
  };
  Place now{rank, static_cast<int>(order[static_cast<std::size_t>(rank)].size()) - 1};
  while (now.at >= 0) {
    path.push_back(now);
    const Step step = order[static_cast<std::size_t>(now.rank)][static_cast<std::size_t>(now.at)];
    const auto& ends = ends_[static_cast<std::size_t>(now.rank)];
    const double start = ends[static_cast<std::size_t>(now.at)] - seconds(step);
    const double before = now.at > 0 ? ends[static_cast<std::size_t>(now.at) - 1] : 0;
    const bool forward = step.kind == Compute::forward;
    const int from = step.chunk + (forward ? -1 : 1);
    if (step.kind == Compute::backward_weight || from < 0 || from >= chunks_ || before >= start - 1e-12 * (1 + start)) {
      --now.at;
      continue;
    }
    const int m = of_rank(now.rank)[static_cast<std::size_t>(now.at)];
    now = (forward ? forward_place_ : backward_place_)[cell(from, m)];
  }
  return path;
}

}  // namespace espalier::pipeline
