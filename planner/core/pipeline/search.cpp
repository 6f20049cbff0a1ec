#include "planner/core/pipeline/search.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/graph.hpp"
#include "planner/core/pipeline/improve.hpp"
#include "planner/core/pipeline/list_scheduler.hpp"
#include "planner/core/pipeline/local_moves.hpp"
#include "planner/core/pipeline/time_bound.hpp"

namespace espalier::pipeline {
namespace {

constexpr int kScheduleSteps = 8;  // what list_schedule costs for one action, in steps of SearchOptions::work
constexpr std::size_t kKept = 4;   // orders that are improved

class Search {
 public:
  Search(const SearchProblem& problem, const SearchOptions& options)
      : problem_(problem), chance_(options.seed), work_(options.work), graph_(problem), enough_(time_bound(problem)) {}

  Found run(const std::vector<Schedule>& starts) {
    try_generators();
    for (const Schedule& start : starts) add(order_of(start));
    try_rules();
    improve_best();
    if (kept_.empty()) return result_;
    result_.schedule = schedule_of(kept_.front().order, problem_);
    result_.time = kept_.front().time;
    return std::move(result_);
  }

 private:
  struct Candidate {
    double time = 0;
    Order order;
  };
  struct Rated {
    double time = 0;
    PriorityRule rule;
  };

  bool done() const { return !kept_.empty() && kept_.front().time <= enough_; }

  // Keeps the best few. B is taken apart where that costs nothing: what follows then never waits longer.
  std::optional<double> add(Order order, bool as_it_is = false) {
    if (!fits(order, problem_)) return std::nullopt;
    if (!as_it_is) {
      for (RankOrder& steps : order)
        for (int at = static_cast<int>(steps.size()) - 1; at >= 0; --at) {
          const Step step = steps[static_cast<std::size_t>(at)];
          const ChunkCosts& cost = problem_.costs[static_cast<std::size_t>(step.chunk)];
          if (step.kind == Compute::backward && cost.backward_input + cost.backward_weight <= cost.backward)
            split_backward(steps, at);
        }
    }
    const auto time = graph_.time(order);
    work_ -= graph_.nodes();
    if (!time) return std::nullopt;
    const auto place = std::lower_bound(kept_.begin(), kept_.end(), *time,
                                        [](const Candidate& one, double value) { return one.time < value; });
    const bool known = place != kept_.end() && place->order == order;
    if (!known && static_cast<std::size_t>(place - kept_.begin()) < kKept)
      kept_.insert(place, {*time, std::move(order)});
    if (kept_.size() > kKept) kept_.pop_back();
    return time;
  }

  void try_generators() {
    const auto chunks = static_cast<int>(problem_.rank_of_chunk.size());
    if (chunks % problem_.ranks != 0) return;
    for (const Generator& one : generators()) {
      const int each = chunks / problem_.ranks;
      if (one.chunks_per_rank > 0 && one.chunks_per_rank != each) continue;
      Schedule schedule = one.make({problem_.ranks, problem_.micro_batches, each});
      if (schedule.rank_of_chunk != problem_.rank_of_chunk) continue;
      const auto time = add(order_of(schedule), true);
      if (time && (result_.best_generator.empty() || *time < result_.generator_time)) {
        result_.best_generator = one.name;
        result_.generator_time = *time;
      }
      add(order_of(schedule));
    }
  }

  PriorityRule any_rule() {
    const auto one_of = [this](std::initializer_list<double> values) {
      return values.begin()[chance_.below(static_cast<int>(values.size()))];
    };
    PriorityRule rule;
    rule.forward_step = one_of({0.5, 1, 1, 1.5, 2, 3, 4});
    rule.backward_step = one_of({0.5, 1, 1, 1.5, 2, 3});
    rule.turn = one_of({-1, 0, 0, 0.5, 1, 2});
    rule.weight_delay = one_of({0, 0.3, 0.6, 1, 2, 4, 1000});
    rule.patience = one_of({0, 0, 0.3, 0.6, 1, 1});
    return rule;
  }
  PriorityRule near(PriorityRule rule) {
    const auto shifted = [this](double& value, double by) { value += by * (chance_.unit() + chance_.unit() - 1); };
    shifted(rule.forward_step, 0.6);
    shifted(rule.backward_step, 0.6);
    shifted(rule.turn, 0.6);
    shifted(rule.weight_delay, 0.6);
    if (chance_.below(3) == 0) rule.patience = chance_.unit();
    return rule;
  }

  void try_rules() {
    bool joined = false;  // B as a whole may be faster than its parts
    for (const ChunkCosts& cost : problem_.costs)
      joined = joined || cost.backward < cost.backward_input + cost.backward_weight;
    std::vector<Rated> best;
    const std::int64_t left = work_ - work_ * 2 / 3;
    for (int round = 0; (work_ > left || round < 4) && round < 400 && !done(); ++round) {
      PriorityRule rule = round < 4 ? PriorityRule{}
                          : round % 3 == 0 || best.empty()
                              ? any_rule()
                              : near(best[static_cast<std::size_t>(chance_.below(static_cast<int>(best.size())))].rule);
      if (round < 4) rule.patience = round / 2, rule.weight_delay = round % 2 == 0 ? 1 : 1000;
      rule.whole = joined && round >= 4 && chance_.below(2) == 0;
      auto order = list_schedule(problem_, rule);
      work_ -= kScheduleSteps * graph_.nodes();
      if (!order) return;
      const auto time = add(std::move(*order));
      if (!time) continue;
      best.insert(std::upper_bound(best.begin(), best.end(), *time,
                                   [](double value, const Rated& one) { return value < one.time; }),
                  {*time, rule});
      if (best.size() > 6) best.pop_back();
    }
  }

  void improve_best() {
    const std::vector<Candidate> starts = kept_;
    // One run after the other; what is best so far is improved last.
    for (std::size_t i = starts.size(); i-- > 0 && work_ > 0 && !done();) {
      Order order = i == 0 ? kept_.front().order : starts[i].order;
      std::int64_t share = work_ / static_cast<std::int64_t>(i + 1);
      work_ -= share;
      improve(problem_, graph_, order, chance_, share, enough_);
      work_ += share;
      add(std::move(order), true);
    }
  }

  const SearchProblem& problem_;
  Chance chance_;
  std::int64_t work_;
  Graph graph_;
  const double enough_;          // no schedule is faster
  std::vector<Candidate> kept_;  // fastest first
  Found result_;
};

}  // namespace

std::int64_t usual_work(const SearchProblem& problem) {
  constexpr std::int64_t kMost = 20'000'000, kOrders = 40'000;
  const auto nodes = 3 * static_cast<std::int64_t>(problem.rank_of_chunk.size()) * problem.micro_batches;
  return std::min(kMost, kOrders * nodes);
}

Found search(const SearchProblem& problem, const SearchOptions& options, const std::vector<Schedule>& starts) {
  ESPALIER_INVARIANT(problem.costs.size() == problem.rank_of_chunk.size());
  ESPALIER_INVARIANT(problem.memory.empty() || problem.memory.size() == static_cast<std::size_t>(problem.ranks));
  return Search(problem, options).run(starts);
}

}  // namespace espalier::pipeline
