#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_plans.hpp"
#include "tests/unit/torchrt_schedule_cases.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

ScheduleOptions named(const std::string& name) {
  ScheduleOptions options;
  options.name = name;
  return options;
}

// Stages of 1, 3 and 2 replicas with uneven shares.
Plan ragged_plan() {
  return short_plan({{{4, "a", 0}}, {{1, "a", 1}, {2, "a", 2}, {1, "a", 3}}, {{3, "b", 0}, {1, "b", 1}}}, 7, 5, 4);
}

Schedule ragged(const std::string& name = "1f1b") { return make_schedule(make_layout(ragged_plan(), 7), named(name)); }

std::vector<Op> of_kind(const std::vector<Op>& ops, OpKind kind, int micro_batch = -1) {
  std::vector<Op> found;
  std::copy_if(ops.begin(), ops.end(), std::back_inserter(found),
               [&](const Op& op) { return op.kind == kind && (micro_batch < 0 || op.micro_batch == micro_batch); });
  return found;
}

std::size_t place(const std::vector<Op>& ops, const Op& op) {
  return static_cast<std::size_t>(std::find(ops.begin(), ops.end(), op) - ops.begin());
}

}  // namespace

TEST_CASE("generated schedules are sound for every number of stages and micro-batches") {
  for (const char* name : {"1f1b", "gpipe"})
    for (int stages = 1; stages <= 8; ++stages)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        std::vector<std::pair<std::string, int>> gpus;
        for (int s = 0; s < stages; ++s) gpus.push_back({"a", s});
        const Schedule schedule = make_schedule(make_layout(pipeline_of(gpus, 8, micro_batches), 8), named(name));
        CHECK_MESSAGE(check(schedule).empty(), name, " ", stages, " stages, ", micro_batches, " micro-batches");
      }
}

TEST_CASE("generated schedules are sound for any plan: uneven layers, mixed DP and TP, shares, ZeRO-1, tied tables") {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const Plan plan = any_plan(random, 6);
    const Schedule schedule = make_schedule(make_layout(plan, 6), any_options(random));
    const std::vector<std::string> problems = check(schedule);
    CAPTURE(describe(plan));
    CAPTURE(schedule.options.name);
    CAPTURE(schedule.options.tied_rows);
    CHECK_MESSAGE(problems.empty(), (problems.empty() ? "" : problems.front()));
  }
}

TEST_CASE("ranks that are to be connected name each other in the same lane, and nobody names itself") {
  std::mt19937 random(4);
  int pairs = 0, distant = 0;
  for (int round = 0; round < 200; ++round) {
    const Plan plan = any_plan(random, 6);
    const Schedule schedule = make_schedule(make_layout(plan, 6), any_options(random));
    CAPTURE(describe(plan));
    CAPTURE(schedule.options.tied_rows);
    std::set<std::tuple<int, Lane, int>> named;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const auto& [lane, list] : peers(schedule.ranks[rank], static_cast<int>(rank)))
        for (const int peer : list) named.emplace(static_cast<int>(rank), lane, peer);
    for (const auto& [rank, lane, peer] : named) {
      REQUIRE(rank != peer);
      REQUIRE(named.count({peer, lane, rank}) == 1);
      const auto stage_of = [&](int r) { return schedule.layout.ranks[static_cast<std::size_t>(r)].stage; };
      distant += std::abs(stage_of(rank) - stage_of(peer)) > 1;
      ++pairs;
    }
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const Op& op : schedule.ranks[rank])
        if ((is_send(op.kind) || is_receive(op.kind)) && op.peer != static_cast<int>(rank))
          REQUIRE(named.count({static_cast<int>(rank), lane_of(op), op.peer}) == 1);
  }
  CHECK(pairs > 1000);
  CHECK(distant > 20);  // tied tables
}

TEST_CASE("one rank's list is the same whether made alone or with all") {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const Schedule schedule = make_schedule(make_layout(any_plan(random, 5), 5), any_options(random));
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      CHECK(make_operations(schedule.layout, schedule.options, static_cast<int>(rank)) == schedule.ranks[rank]);
  }
}

TEST_CASE("1f1b keeps at most as many micro-batches in flight as stages remain") {
  const Schedule schedule =
      make_schedule(make_layout(pipeline_of({{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}}, 8, 8), 8), named("1f1b"));
  for (std::size_t r = 0; r < 4; ++r) {
    int flying = 0, most = 0;
    for (const Op& op : schedule.ranks[r]) {
      if (op.kind == OpKind::forward) most = std::max(most, ++flying);
      if (op.kind == OpKind::backward && op.unit <= 0) --flying;
    }
    CHECK(most == 4 - static_cast<int>(r));
  }
}

TEST_CASE("a message is received one computation before the one that needs it, and no lane's order changes") {
  const Schedule steady = make_schedule(make_layout(pipeline_of({{"a", 0}, {"a", 1}}, 2, 3), 2), named("1f1b"));
  const std::vector<Op>& last = steady.ranks[1];
  // The second micro-batch travels while the first one is worked on; the third while the second goes back.
  const auto first = [&](OpKind kind, int m) { return place(last, of_kind(last, kind, m).front()); };
  CHECK(first(OpKind::receive_activation, 1) < first(OpKind::backward, 0));
  CHECK(first(OpKind::receive_activation, 1) > first(OpKind::forward, 0));
  CHECK(first(OpKind::receive_activation, 2) < first(OpKind::backward, 1));

  std::mt19937 random(8);
  int ahead = 0;
  for (int round = 0; round < 200; ++round) {
    const Schedule schedule = make_schedule(make_layout(any_plan(random, 6), 6), any_options(random));
    for (const std::vector<Op>& ops : schedule.ranks) {
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind != OpKind::receive_activation && ops[i].kind != OpKind::receive_gradient) continue;
        const OpKind wanted = ops[i].kind == OpKind::receive_activation ? OpKind::forward : OpKind::backward;
        std::set<std::tuple<OpKind, int, int>> between;  // computations before the one that needs it
        std::size_t j = i + 1;
        for (; ops[j].kind != wanted || ops[j].chunk != ops[i].chunk || ops[j].micro_batch != ops[i].micro_batch; ++j) {
          if (ops[j].chunk >= 0 && !is_send(ops[j].kind) && !is_receive(ops[j].kind))
            between.emplace(ops[j].kind, ops[j].chunk, ops[j].micro_batch);
          REQUIRE((!is_send(ops[j].kind) || lane_of(ops[j]) != lane_of(ops[i])));
        }
        CHECK(between.size() <= 2);  // backward and weight gradient of one
        ahead += !between.empty();
      }
    }
  }
  CHECK(ahead > 200);
}

TEST_CASE("samples are dealt to the neighbours that own them") {
  const Schedule schedule = ragged();
  const std::vector<Op> sends = of_kind(schedule.ranks[2], OpKind::send_activation, 0);  // samples 1 and 2
  REQUIRE(sends.size() == 1);
  CHECK(sends[0] == Op{OpKind::send_activation, 0, -1, 4, 1, 2, 1});
  const std::vector<Op> dealt = of_kind(schedule.ranks[0], OpKind::send_activation, 3);
  REQUIRE(dealt.size() == 3);
  CHECK(dealt[1] == Op{OpKind::send_activation, 3, -1, 2, 1, 2, 0});
}

TEST_CASE("between TP degrees each receiver has one sender, and senders share the receivers") {
  const std::vector<GpuId> gpus = {{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}, {"b", 2}, {"b", 3}};
  Plan plan = uniform_plan(1, 1, 2, 2, 1, {gpus[0], gpus[1]}, 2);
  plan.stages.push_back(uniform_plan(1, 1, 2, 2, 1, {gpus.begin() + 2, gpus.end()}, 4).stages[0]);
  const Schedule schedule = make_schedule(make_layout(plan, 4), {});
  const auto peers = [&](int rank, OpKind kind) {
    std::vector<int> found;
    for (const Op& op : of_kind(schedule.ranks[static_cast<std::size_t>(rank)], kind)) found.push_back(op.peer);
    return found;
  };
  CHECK(peers(0, OpKind::send_activation) == std::vector<int>{2, 4});
  CHECK(peers(1, OpKind::send_activation) == std::vector<int>{3, 5});
  CHECK(peers(1, OpKind::receive_gradient) == std::vector<int>{3});
  CHECK(peers(4, OpKind::send_gradient).empty());
  CHECK(check(schedule).empty());
}

TEST_CASE("the gradient leaves before the work on the weights") {
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    const Schedule schedule = make_schedule(make_layout(any_plan(random, 6), 6), any_options(random));
    for (const std::vector<Op>& ops : schedule.ranks)
      for (const Op& send : of_kind(ops, OpKind::send_gradient))
        for (const Op& work : of_kind(ops, OpKind::weight_gradient, send.micro_batch))
          CHECK(place(ops, send) < place(ops, work));
  }
}

TEST_CASE("a unit's reduction starts before the next unit's weight gradients") {
  const std::vector<Op> ops = make_operations(make_layout(ragged_plan(), 7), {}, 1);
  const std::vector<Op> starts = of_kind(ops, OpKind::reduce), work = of_kind(ops, OpKind::weight_gradient, 4);
  REQUIRE(starts.size() == work.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    CHECK(place(ops, work[i]) + 1 == place(ops, starts[i]));
    CHECK(place(ops, starts[i]) < place(ops, of_kind(ops, OpKind::finish_reduce).front()));
  }
}

TEST_CASE("what is computed again for a unit is used up before the next unit's turn, in a sound schedule") {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    ScheduleOptions options;
    options.recompute = true;
    const Schedule schedule =
        make_schedule(make_layout(round == 0 ? ragged_plan() : any_plan(random, 4), round == 0 ? 7 : 4), options);
    CHECK(check(schedule).empty());
    for (const std::vector<Op>& ops : schedule.ranks) {
      const Op* open = nullptr;  // has its inputs' gradients, not yet its parameters'
      for (const Op& op : ops) {
        if (op.kind == OpKind::backward) {
          CHECK_FALSE(open);
          CHECK(op.unit >= 0);
          open = &op;
        } else if (op.kind == OpKind::weight_gradient) {
          REQUIRE(open);
          CHECK(open->unit == op.unit);
          open = nullptr;
        }
      }
    }
  }
}

TEST_CASE("replicas share the sending of tied tables evenly, and each copy gets every row once") {
  std::mt19937 random(21);
  for (int round = 0; round < 100; ++round) {
    ScheduleOptions options;
    options.tied_rows = 64;
    const Layout layout = make_layout(any_plan(random, 4), 4);
    const Schedule schedule = make_schedule(layout, options);
    const StageLayout stages[2] = {layout.stages.front(), layout.stages.back()};
    for (const int unit : {0, layout.units - 1}) {
      const StageLayout &from = stages[unit == 0 ? 0 : 1], &to = stages[unit == 0 ? 1 : 0];
      int least = 1 << 30, most = 0;
      for (int rank = from.first_rank; rank < from.first_rank + from.ranks(); ++rank) {
        int sent = 0;
        for (const Op& op : of_kind(schedule.ranks[static_cast<std::size_t>(rank)], OpKind::send_tied))
          if (op.unit == unit) sent += op.count;
        least = std::min(least, sent);
        most = std::max(most, sent);
      }
      CHECK(most - least <= std::max(from.tp, to.tp));  // rounding, for each pair of shards
      for (int rank = to.first_rank; rank < to.first_rank + to.ranks(); ++rank) {
        int received = 0;
        for (const Op& op : of_kind(schedule.ranks[static_cast<std::size_t>(rank)], OpKind::receive_tied))
          if (op.unit != unit) received += op.count;
        CHECK(received == 64 / to.tp);
      }
    }
  }
}

TEST_CASE("an unknown schedule is an error that names the known ones") {
  CHECK_THROWS_WITH_AS(ragged("zigzag"),
                       doctest::Contains("schedule \"zigzag\": there is none of this name; use one of 1f1b, gpipe"),
                       Error);
}

TEST_CASE("a schedule can be printed") {
  const std::string text = describe(make_schedule(make_layout(pipeline_of({{"a", 0}, {"a", 1}}, 2, 1), 2), {}));
  CHECK(text ==
        "rank 0: stage 0 replica 0 units 0-1 samples 0-1\n  forward 0\n  send activation 0 [0,2) to 1\n"
        "  receive gradient 0 [0,2) from 1\n  backward 0\n  weight gradient 0\n  agree\n  update unit 0\n"
        "  update unit 1\n"
        "rank 1: stage 1 replica 0 units 2-3 samples 0-1\n  receive activation 0 [0,2) from 0\n  forward 0\n"
        "  backward 0\n  send gradient 0 [0,2) to 0\n  weight gradient 0\n  agree\n  update unit 2\n"
        "  update unit 3\n");
}

TEST_CASE("a layout refuses a plan of another model") {
  CHECK_THROWS_AS(make_layout(pipeline_of({{"a", 0}, {"a", 1}}, 4), 8), Error);
}

TEST_CASE("ranks of a stage come replica by replica, then by TP rank") {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const Plan plan = any_plan(random, 6);
    const Layout layout = make_layout(plan, 6);
    const std::vector<RankPlace> places = rank_places(plan);
    REQUIRE(layout.ranks.size() == places.size());
    for (std::size_t r = 0; r < places.size(); ++r) {
      const RankLayout& rank = layout.ranks[r];
      CHECK(rank.stage == places[r].stage);
      CHECK(rank.replica == places[r].replica);
      CHECK(rank.tp_rank == places[r].tp_rank);
      CHECK(layout.stages[static_cast<std::size_t>(rank.stage)].rank(rank.replica, rank.tp_rank) ==
            static_cast<int>(r));
      CHECK(rank.has_embedding == (rank.stage == 0));
    }
  }
}
