#include "planner/core/pipeline/list_scheduler.hpp"

#include <algorithm>
#include <limits>

#include "planner/core/pipeline/placement.hpp"

namespace espalier::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Scheduler {
 public:
  Scheduler(const SearchProblem& problem, const PriorityRule& rule)
      : problem_(problem),
        rule_(rule),
        chunks_(static_cast<int>(problem.rank_of_chunk.size())),
        on_rank_(chunks_of_ranks(problem.rank_of_chunk, problem.ranks)),
        counts_(problem.rank_of_chunk.size()),
        ranks_(static_cast<std::size_t>(problem.ranks)),
        order_(static_cast<std::size_t>(problem.ranks)) {
    const std::size_t cells = problem.rank_of_chunk.size() * static_cast<std::size_t>(problem.micro_batches);
    forward_there_.assign(cells, kNever);
    backward_there_.assign(cells, kNever);
    for (int m = 0; m < problem.micro_batches; ++m) forward_there_[cell(0, m)] = 0;
    set_due_times();
  }

  std::optional<Order> run() {
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      double whole = 0;
      for (const int chunk : on_rank_[static_cast<std::size_t>(rank)]) whole += cost(chunk).activation;
      if (!within(whole, limit(rank))) return std::nullopt;
      look(rank);
    }
    std::size_t left = 0;
    for (int chunk = 0; chunk < chunks_; ++chunk)
      left += static_cast<std::size_t>(problem_.micro_batches) * (rule_.whole ? 2 : 3);
    while (left > 0) {
      const auto next = std::min_element(ranks_.begin(), ranks_.end(),
                                         [](const Rank& a, const Rank& b) { return a.decides < b.decides; });
      if (next->decides == kNever) return std::nullopt;
      if (decide(static_cast<int>(next - ranks_.begin()))) --left;
    }
    return std::move(order_);
  }

 private:
  struct Counts {
    int forward = 0, backward = 0, weight = 0;
  };
  struct Rank {
    double free = 0;     // the end of what it runs
    double decides = 0;  // when it looks for something to run; kNever: when something arrives
    double held = 0;
  };
  struct Candidate {
    Step step;
    double there = kNever;  // when it can start
    double due = kNever;    // urgency: the least comes first
  };

  const ChunkCosts& cost(int chunk) const { return problem_.costs[static_cast<std::size_t>(chunk)]; }
  Counts& counts(int chunk) { return counts_[static_cast<std::size_t>(chunk)]; }
  Rank& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  int owner(int chunk) const { return problem_.rank_of_chunk[static_cast<std::size_t>(chunk)]; }
  double limit(int rank) const {
    return problem_.memory.empty() ? kNever : problem_.memory[static_cast<std::size_t>(rank)];
  }
  std::size_t cell(int chunk, int m) const {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(problem_.micro_batches) +
           static_cast<std::size_t>(m);
  }
  double seconds(const Step& step) const {
    const ChunkCosts& one = cost(step.chunk);
    switch (step.kind) {
      case Compute::forward:
        return one.forward;
      case Compute::backward:
        return one.backward;
      case Compute::backward_input:
        return one.backward_input;
      case Compute::backward_weight:
        return one.backward_weight;
    }
    return 0;
  }

  void set_due_times() {
    std::vector<double> work(static_cast<std::size_t>(problem_.ranks));
    for (int chunk = 0; chunk < chunks_; ++chunk)
      work[static_cast<std::size_t>(owner(chunk))] +=
          cost(chunk).forward +
          (rule_.whole ? cost(chunk).backward : cost(chunk).backward_input + cost(chunk).backward_weight);
    period_ = *std::max_element(work.begin(), work.end());
    double now = 0;
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      due_forward_.push_back(now);
      now += rule_.forward_step * (cost(chunk).forward + cost(chunk).send_forward);
    }
    now += rule_.turn * period_;
    due_backward_.resize(problem_.costs.size());
    for (int chunk = chunks_ - 1; chunk >= 0; --chunk) {
      due_backward_[static_cast<std::size_t>(chunk)] = now;
      now += rule_.backward_step *
             ((rule_.whole ? cost(chunk).backward : cost(chunk).backward_input) + cost(chunk).send_backward);
    }
  }

  // Whether F of `chunk` may take memory now, so that the micro-batches on the rank can all end, the oldest first. The
  // micro-batch m can end when the younger ones, and m with all its chunks of this rank, have room together: the older
  // ones will have left.
  bool has_room(int rank, int chunk) {
    const double most = limit(rank);
    if (most == kNever) return true;
    if (!within(state(rank).held + cost(chunk).activation, most)) return false;
    const auto& mine = on_rank_[static_cast<std::size_t>(rank)];
    if (mine.size() == 1) return true;
    const auto forwards = [&](int other) { return counts(other).forward + (other == chunk ? 1 : 0); };
    for (const int behind : mine) {
      const int m = forwards(behind);
      if (m >= problem_.micro_batches) continue;
      double needed = 0;
      for (const int other : mine) needed += cost(other).activation * std::max(1, forwards(other) - m);
      if (!within(needed, most)) return false;
    }
    return true;
  }

  // What the rank could run next, now or later. An F that has no room lends its urgency to W.
  void candidates(int rank, std::vector<Candidate>& all) {
    all.clear();
    double blocked = kNever;
    for (const int chunk : on_rank_[static_cast<std::size_t>(rank)]) {
      const Counts& at = counts(chunk);
      const auto c = static_cast<std::size_t>(chunk);
      const auto short_chunk = static_cast<std::int16_t>(chunk);
      if (at.forward < problem_.micro_batches) {
        const double there = forward_there_[cell(chunk, at.forward)], due = at.forward * period_ + due_forward_[c];
        if (there < kNever) {
          if (has_room(rank, chunk)) all.push_back({{Compute::forward, short_chunk}, there, due});
          else if (there <= state(rank).free) blocked = std::min(blocked, due);
        }
      }
      if (at.backward < at.forward) {
        const double there = backward_there_[cell(chunk, at.backward)];
        if (there < kNever)
          all.push_back({{rule_.whole ? Compute::backward : Compute::backward_input, short_chunk},
                         there,
                         at.backward * period_ + due_backward_[c]});
      }
    }
    if (rule_.whole) return;
    for (const int chunk : on_rank_[static_cast<std::size_t>(rank)]) {
      const Counts& at = counts(chunk);
      if (at.weight == at.backward) continue;
      const double due = (at.weight + rule_.weight_delay) * period_ + due_backward_[static_cast<std::size_t>(chunk)];
      all.push_back({{Compute::backward_weight, static_cast<std::int16_t>(chunk)}, 0, std::min(due, blocked)});
    }
  }

  // Sets when the rank looks again.
  void look(int rank) {
    candidates(rank, scratch_);
    double soonest = kNever;
    for (const Candidate& one : scratch_) soonest = std::min(soonest, one.there);
    state(rank).decides = soonest == kNever ? kNever : std::max(state(rank).free, soonest);
  }

  // Runs the most urgent action, or puts the decision off. True: an action was added.
  bool decide(int rank) {
    const double now = state(rank).decides;
    candidates(rank, scratch_);
    const Candidate* best = nullptr;
    for (const Candidate& one : scratch_)
      if (one.there <= now && (!best || one.due < best->due)) best = &one;
    if (!best) {
      look(rank);
      return false;
    }
    const double until = now + rule_.patience * seconds(best->step);
    double wait = kNever;
    for (const Candidate& one : scratch_)
      if (one.there > now && one.there < until && one.due < best->due) wait = std::min(wait, one.there);
    if (wait < kNever) {
      state(rank).decides = wait;
      return false;
    }
    start(rank, best->step, now);
    return true;
  }

  void start(int rank, const Step step, double now) {
    const int chunk = step.chunk;
    const double end = now + seconds(step);
    Rank& self = state(rank);
    Counts& at = counts(chunk);
    order_[static_cast<std::size_t>(rank)].push_back(step);
    self.free = end;
    int wakes = -1;  // the rank that the result goes to
    double arrives = kNever;
    switch (step.kind) {
      case Compute::forward: {
        const int m = at.forward++;
        self.held += cost(chunk).activation;
        if (chunk + 1 == chunks_) {
          backward_there_[cell(chunk, m)] = end;
        } else {
          wakes = owner(chunk + 1);
          arrives = end + (wakes == rank ? 0 : cost(chunk).send_forward);
          forward_there_[cell(chunk + 1, m)] = arrives;
        }
        break;
      }
      case Compute::backward_weight:
        ++at.weight;
        self.held -= cost(chunk).activation - cost(chunk).freed_by_input;
        break;
      default: {
        const int m = at.backward++;
        self.held -= step.kind == Compute::backward ? cost(chunk).activation : cost(chunk).freed_by_input;
        if (chunk > 0) {
          wakes = owner(chunk - 1);
          arrives = end + (wakes == rank ? 0 : cost(chunk).send_backward);
          backward_there_[cell(chunk - 1, m)] = arrives;
        }
      }
    }
    self.decides = end;
    if (wakes >= 0 && wakes != rank)
      state(wakes).decides = std::min(state(wakes).decides, std::max(state(wakes).free, arrives));
  }

  const SearchProblem& problem_;
  const PriorityRule& rule_;
  const int chunks_;
  const std::vector<std::vector<int>> on_rank_;
  std::vector<Counts> counts_;  // by chunk
  std::vector<Rank> ranks_;
  Order order_;
  double period_ = 0;                                   // work of the slowest rank on one micro-batch
  std::vector<double> due_forward_, due_backward_;      // by chunk, of the first micro-batch
  std::vector<double> forward_there_, backward_there_;  // when inputs arrive, by chunk and micro-batch
  std::vector<Candidate> scratch_;
};

}  // namespace

std::optional<Order> list_schedule(const SearchProblem& problem, const PriorityRule& rule) {
  return Scheduler(problem, rule).run();
}

}  // namespace espalier::pipeline
