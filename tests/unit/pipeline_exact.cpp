// The oracle of the search, against two others: all orders in turn, and GLPK on the problem as an integer program.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "planner/core/pipeline/graph.hpp"
#include "planner/core/pipeline/placement.hpp"
#include "planner/sim/policies/linear_program.hpp"
#include "tests/bench/planner/exact_schedule.hpp"
#include "tests/unit/pipeline_cases.hpp"

using namespace espalier;
using namespace espalier::pipeline;

namespace {

// Every order of every rank, with B whole or in parts.
class AllOrders {
 public:
  explicit AllOrders(const SearchProblem& problem)
      : problem_(problem), graph_(problem), order_(static_cast<std::size_t>(problem.ranks)) {}
  double best() {
    counts_.assign(problem_.costs.size(), {});
    extend(0);
    return best_;
  }

 private:
  struct Counts {
    int forward = 0, backward = 0, owed = 0;
  };
  void extend(int rank) {
    if (rank == problem_.ranks) {
      if (const auto time = graph_.time(order_)) best_ = std::min(best_, *time);
      return;
    }
    RankOrder& steps = order_[static_cast<std::size_t>(rank)];
    bool all = true;
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      if (problem_.rank_of_chunk[c] != rank) continue;
      const Counts at = counts_[c];
      all = all && at.backward == problem_.micro_batches && at.owed == 0;
      const auto with = [&](Compute kind, Counts after) {
        steps.push_back({kind, static_cast<std::int16_t>(c)});
        counts_[c] = after;
        if (within(peak_of(steps, problem_.costs), problem_.memory[static_cast<std::size_t>(rank)])) extend(rank);
        counts_[c] = at;
        steps.pop_back();
      };
      if (at.forward < problem_.micro_batches) with(Compute::forward, {at.forward + 1, at.backward, at.owed});
      if (at.backward < at.forward) {
        with(Compute::backward, {at.forward, at.backward + 1, at.owed});
        with(Compute::backward_input, {at.forward, at.backward + 1, at.owed + 1});
      }
      if (at.owed > 0) with(Compute::backward_weight, {at.forward, at.backward, at.owed - 1});
    }
    if (all) extend(rank + 1);
  }

  const SearchProblem& problem_;
  Graph graph_;
  Order order_;
  std::vector<Counts> counts_;
  double best_ = 1e300;
};

// Starts are numbers, and of two computations of a rank a binary says which is first. Micro-batches keep no order here.
// Backward is in parts, which is the fastest when B takes as long as they do.
double by_integer_program(const SearchProblem& problem) {
  constexpr double kNone = sim::LinearProgram::kNone;
  constexpr double kLong = 60;  // more than any schedule here takes
  struct Node {
    int rank, chunk, micro_batch, kind;
    double seconds;
  };
  std::vector<Node> nodes;
  std::vector<std::vector<sim::LinearProgram::Entry>> entries;  // of each start's column
  std::map<std::tuple<int, int, int>, std::size_t> index;
  for (int chunk = 0; chunk < static_cast<int>(problem.costs.size()); ++chunk)
    for (int m = 0; m < problem.micro_batches; ++m)
      for (int kind = 0; kind < 3; ++kind) {
        const ChunkCosts& cost = problem.costs[static_cast<std::size_t>(chunk)];
        index[{chunk, m, kind}] = nodes.size();
        nodes.push_back({problem.rank_of_chunk[static_cast<std::size_t>(chunk)], chunk, m, kind,
                         kind == 0   ? cost.forward
                         : kind == 1 ? cost.backward_input
                                     : cost.backward_weight});
      }
  entries.resize(nodes.size());
  sim::LinearProgram program;
  std::vector<sim::LinearProgram::Entry> makespan;
  const auto after = [&](std::size_t later, std::size_t earlier, double gap) {  // start(later) - start(earlier) >= gap
    const int row = program.add_row(gap, kNone);
    entries[later].push_back({row, 1});
    entries[earlier].push_back({row, -1});
    return row;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const int row = program.add_row(nodes[i].seconds, kNone);
    makespan.push_back({row, 1});
    entries[i].push_back({row, -1});
    const Node& n = nodes[i];
    const auto hop = [&](int from, double seconds) {
      return problem.rank_of_chunk[static_cast<std::size_t>(from)] == n.rank ? 0 : seconds;
    };
    if (n.kind == 0 && n.chunk > 0) {
      const std::size_t j = index[{n.chunk - 1, n.micro_batch, 0}];
      after(i, j,
            nodes[j].seconds + hop(n.chunk - 1, problem.costs[static_cast<std::size_t>(n.chunk - 1)].send_forward));
    }
    if (n.kind == 1 && n.chunk + 1 < static_cast<int>(problem.costs.size())) {
      const std::size_t j = index[{n.chunk + 1, n.micro_batch, 1}];
      after(i, j,
            nodes[j].seconds + hop(n.chunk + 1, problem.costs[static_cast<std::size_t>(n.chunk + 1)].send_backward));
    }
    if (n.kind > 0) {
      const std::size_t j = index[{n.chunk, n.micro_batch, n.kind - 1}];
      after(i, j, nodes[j].seconds);
    }
  }
  // Of each F: what is kept before it must leave room.
  std::map<std::size_t, int> room;
  const auto change = [&](const Node& n) {  // of the memory
    const ChunkCosts& cost = problem.costs[static_cast<std::size_t>(n.chunk)];
    return n.kind == 0 ? cost.activation : n.kind == 1 ? -cost.freed_by_input : cost.freed_by_input - cost.activation;
  };
  struct Pair {
    std::size_t i, j;
    std::vector<sim::LinearProgram::Entry> entries;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (std::size_t j = i + 1; j < nodes.size(); ++j) {
      if (nodes[i].rank != nodes[j].rank) continue;
      Pair pair{i, j, {}};
      // Binary 1: i before j.
      const int first = after(j, i, nodes[i].seconds - kLong);
      pair.entries.push_back({first, -kLong});
      const int second = after(i, j, nodes[j].seconds);
      pair.entries.push_back({second, kLong});
      pairs.push_back(std::move(pair));
    }
  for (std::size_t f = 0; f < nodes.size(); ++f) {
    if (nodes[f].kind != 0) continue;
    double limit = problem.memory[static_cast<std::size_t>(nodes[f].rank)] - change(nodes[f]);
    for (const Pair& pair : pairs)
      if (pair.i == f) limit -= change(nodes[pair.j]);  // j comes before f when the binary is 0
    room[f] = program.add_row(-kNone, limit + 1e-9);
    for (Pair& pair : pairs) {
      if (pair.i == f) pair.entries.push_back({room[f], -change(nodes[pair.j])});
      if (pair.j == f) pair.entries.push_back({room[f], change(nodes[pair.i])});
    }
  }
  program.add_column(1, 0, kNone, makespan);
  for (auto& column : entries) {
    // A column names a row once.
    std::map<int, double> sums;
    for (const auto& entry : column) sums[entry.row] += entry.value;
    std::vector<sim::LinearProgram::Entry> once;
    for (const auto& [row, value] : sums) once.push_back({row, value});
    program.add_column(0, 0, kNone, once);
  }
  for (const Pair& pair : pairs) program.add_column(0, 0, 1, pair.entries, true);
  program.solve_integer(1e-6, 1'000'000'000);
  return program.objective();
}

SearchProblem tiny(const std::vector<int>& rank_of_chunk, int micro_batches, Chance& chance) {
  SearchProblem problem{
      *std::max_element(rank_of_chunk.begin(), rank_of_chunk.end()) + 1, micro_batches, rank_of_chunk, {}, {}};
  problem.costs = uneven_costs(rank_of_chunk.size(), chance);
  problem.memory.assign(static_cast<std::size_t>(problem.ranks), 0);
  for (std::size_t c = 0; c < rank_of_chunk.size(); ++c)
    problem.memory[static_cast<std::size_t>(rank_of_chunk[c])] += problem.costs[c].activation;
  for (double& memory : problem.memory) memory *= 1 + chance.unit() * (micro_batches - 1);
  return problem;
}

}  // namespace

TEST_CASE("the oracle finds the time of the best of all orders") {
  Chance chance(8);
  for (int i = 0; i < 12; ++i) {
    for (const auto& [placement, micro_batches] :
         {std::pair{std::vector<int>{0, 1}, 3}, {{0, 1, 2}, 2}, {{0, 1, 1, 0}, 1}, {{0, 0}, 2}}) {
      const SearchProblem problem = tiny(placement, micro_batches, chance);
      const bench::ExactTime exact = bench::exact_time(problem, 1e9, 1'000'000);
      REQUIRE(exact.proven);
      REQUIRE(exact.time.has_value());
      CHECK(*exact.time == doctest::Approx(AllOrders(problem).best()));
    }
  }
}

TEST_CASE("the oracle finds the optimum that GLPK proves") {
  Chance chance(9);
  for (int i = 0; i < 6; ++i)
    for (const auto& [placement, micro_batches] :
         {std::pair{std::vector<int>{0, 1}, 2}, {{0, 1, 2}, 2}, {{0, 1, 1, 0}, 1}}) {
      SearchProblem problem = tiny(placement, micro_batches, chance);
      for (ChunkCosts& cost : problem.costs) cost.backward = cost.backward_input + cost.backward_weight;
      const bench::ExactTime exact = bench::exact_time(problem, 1e9, 1'000'000);
      REQUIRE(exact.proven);
      CHECK(*exact.time == doctest::Approx(by_integer_program(problem)).epsilon(1e-5));
    }
}

TEST_CASE("the oracle finds nothing faster than the optimum, and says when it gave up") {
  Chance chance(10);
  const SearchProblem problem = tiny({0, 1, 2}, 3, chance);
  const bench::ExactTime exact = bench::exact_time(problem, 1e9, 1'000'000);
  const bench::ExactTime again = bench::exact_time(problem, *exact.time, 1'000'000);
  CHECK(again.proven);
  CHECK_FALSE(again.time.has_value());
  CHECK_FALSE(bench::exact_time(problem, 1e9, 10).proven);
}
