// The checker must find every fault in a list. Good lists are broken in every place, one operation
// at a time.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/torchrt_plans.hpp"
#include "tests/unit/torchrt_schedule_cases.hpp"
#include "torchrt/schedule/lane_queues.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Two replicas in the first stage, then TP 2, then three replicas. With ZeRO-1 and tied tables
// every kind of operation occurs.
Schedule every_kind() {
  Plan plan;
  plan.micro_batches = 3;
  plan.global_batch = 12;
  plan.stages = {{1, 1, {{1, {{"a", 0}}}, {3, {{"a", 1}}}}},
                 {2, 2, {{4, {{"b", 0}, {"b", 1}}}}},
                 {1, 1, {{2, {{"c", 0}}}, {1, {{"c", 1}}}, {1, {{"c", 2}}}}}};
  ScheduleOptions options;
  options.zero1 = true;
  options.tied_rows = 20;
  options.tied_block_rows = 8;
  return make_schedule(make_layout(plan, 4), options);
}

// Stages of two chunks in a V, with unequal replicas and weight gradients apart.
Schedule in_a_v() {
  ScheduleOptions options;
  options.name = "zb-v";
  options.tied_rows = 20;
  Plan plan;
  plan.micro_batches = 3;
  plan.global_batch = 12;
  plan.stages = {{2, 1, {{1, {{"a", 0}}}, {3, {{"a", 1}}}}}, {2, 2, {{4, {{"b", 0}, {"b", 1}}}}}};
  ParallelLimits limits;
  limits.chunks = 2;
  limits.v_shaped = true;
  return make_schedule(make_layout(in_chunks(plan, limits), 4), options);
}

template <class Change>
void break_everywhere(const Schedule& good, const char* what, const Change& change) {
  for (std::size_t rank = 0; rank < good.ranks.size(); ++rank)
    for (std::size_t i = 0; i < good.ranks[rank].size(); ++i) {
      Schedule bad = good;
      if (!change(bad.ranks[rank], i)) continue;
      CHECK_MESSAGE(!check(bad).empty(), what, ": rank ", rank, ", ", describe(good.ranks[rank][i], true));
    }
}
template <class Change>
void break_everywhere(const char* what, const Change& change) {
  break_everywhere(every_kind(), what, change);
  break_everywhere(in_a_v(), what, change);
}

}  // namespace

TEST_CASE("the list that the checker's tests break is sound and holds every kind of operation") {
  const Schedule schedule = every_kind();
  CHECK(check(schedule).empty());
  CHECK(check(in_a_v()).empty());
  for (int kind = 0; kind <= static_cast<int>(OpKind::finish_gather); ++kind)
    CHECK(std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [&](const std::vector<Op>& ops) {
      return std::any_of(ops.begin(), ops.end(), [&](const Op& op) { return static_cast<int>(op.kind) == kind; });
    }));
}

TEST_CASE("the checker finds any operation that is left out") {
  break_everywhere("left out", [](std::vector<Op>& ops, std::size_t i) {
    ops.erase(ops.begin() + static_cast<long>(i));
    return true;
  });
}

TEST_CASE("the checker finds any operation that is done twice") {
  break_everywhere("twice", [](std::vector<Op>& ops, std::size_t i) {
    const Op op = ops[i];
    ops.insert(ops.begin() + static_cast<long>(i), op);
    return true;
  });
}

TEST_CASE("the checker finds any transfer of other samples or rows") {
  break_everywhere("shorter", [](std::vector<Op>& ops, std::size_t i) { return ops[i].count > 0 && ops[i].count--; });
  break_everywhere("shifted", [](std::vector<Op>& ops, std::size_t i) { return ops[i].count > 0 && ++ops[i].first; });
}

TEST_CASE("the checker finds any transfer with a wrong peer") {
  break_everywhere("wrong peer", [](std::vector<Op>& ops, std::size_t i) {
    if (!is_send(ops[i].kind) && !is_receive(ops[i].kind)) return false;
    ops[i].peer = (ops[i].peer + 1) % 7;
    return true;
  });
}

TEST_CASE("the checker finds any operation on a wrong micro-batch or unit") {
  break_everywhere("wrong micro-batch",
                   [](std::vector<Op>& ops, std::size_t i) { return ops[i].micro_batch >= 0 && ++ops[i].micro_batch; });
  break_everywhere("wrong unit", [](std::vector<Op>& ops, std::size_t i) {
    if (ops[i].unit < 0) return false;
    ops[i].unit = (ops[i].unit + 1) % 6;
    return true;
  });
}

TEST_CASE("the checker finds any operation on a wrong chunk") {
  break_everywhere("wrong chunk", [](std::vector<Op>& ops, std::size_t i) {
    if (ops[i].chunk < 0) return false;
    ops[i].chunk = (ops[i].chunk + 1) % 4;
    return true;
  });
}

TEST_CASE("the checker finds work that comes before what it needs") {
  // At the very front, only a receive or a forward can have its input or wait for it.
  break_everywhere("at the front", [](std::vector<Op>& ops, std::size_t i) {
    if (is_receive(ops[i].kind) || ops[i].kind == OpKind::forward) return false;
    std::rotate(ops.begin(), ops.begin() + static_cast<long>(i), ops.begin() + static_cast<long>(i) + 1);
    return true;
  });
}

TEST_CASE("the checker finds a deadlock and says who waits") {
  Schedule schedule = make_schedule(make_layout(pipeline_of({{"a", 0}, {"a", 1}}, 2, 1), 2), {});
  std::vector<Op>& ops = schedule.ranks[0];
  // The rank goes back, which needs its gradient, before it sends the activation.
  const auto first = [&](OpKind kind) {
    return std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.kind == kind; });
  };
  const auto activation = first(OpKind::send_activation);
  std::rotate(activation, activation + 1, first(OpKind::backward) + 1);
  const auto backward = first(OpKind::backward) - ops.begin();
  const std::vector<std::string> problems = check(schedule);
  REQUIRE_FALSE(problems.empty());
  CAPTURE(problems[0]);
  CHECK(problems[0].find("rank 0, operation " + std::to_string(backward) + " (backward 0") == 0);
  CHECK(problems[0].find("waits for ever") != std::string::npos);
}

TEST_CASE("the checker refuses a gradient's receive before its forward") {
  Schedule schedule = every_kind();
  std::vector<Op>& ops = schedule.ranks[0];
  const auto gradient =
      std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::receive_gradient; });
  std::rotate(ops.begin(), gradient, gradient + 1);
  const std::vector<std::string> problems = check(schedule);
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0].find("rank 0, operation 0 (receive gradient 0") == 0);
  CHECK(problems[0].find("no forward came before") != std::string::npos);
}

TEST_CASE("the checker refuses a gradient's send after other work") {
  Schedule schedule = make_schedule(make_layout(pipeline_of({{"a", 0}, {"a", 1}}, 2, 2), 2), {});
  std::vector<Op>& ops = schedule.ranks[1];
  const auto gradient =
      std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::send_gradient; });
  REQUIRE((gradient + 1)->kind == OpKind::weight_gradient);
  std::iter_swap(gradient, gradient + 1);
  const std::vector<std::string> problems = check(schedule);
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0].find("something else was computed since") != std::string::npos);
}

TEST_CASE("a message is late for nobody who does not need it: receives do not wait") {
  // Both stages ask for the second micro-batch's message before they work on the first.
  Plan plan = pipeline_of({{"a", 0}, {"a", 1}}, 2, 2);
  ScheduleOptions options;
  options.name = "gpipe";
  Schedule schedule = make_schedule(make_layout(plan, 2), options);
  std::vector<Op>& ops = schedule.ranks[1];
  const auto second = std::find_if(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::receive_activation && op.micro_batch == 1;
  });
  std::rotate(ops.begin() + 1, second, second + 1);
  CHECK(check(schedule).empty());
  std::swap(ops[0], ops[1]);  // the lane brings the first one first
  CHECK_FALSE(check(schedule).empty());
}

TEST_CASE("a lane of a rank does one transfer after the other, each with its peer") {
  const auto transfer = [](OpKind kind, int peer, bool returns) {
    Op op{kind};
    op.peer = peer;
    op.chunk = kind == OpKind::send_activation ? 0 : 1;
    op.micro_batch = 0;
    op.count = 1;
    op.returns = returns;
    return op;
  };
  using Arrivals = std::vector<LaneQueues::Arrival>;
  const auto arrived = [](const Arrivals& arrivals, int rank, std::size_t place) {
    return arrivals.size() == 1 && arrivals[0].rank == rank && arrivals[0].place == place && arrivals[0].matches;
  };
  // Two ranks that send to each other before they receive: for ever in one lane, and well in two.
  for (const bool returns : {false, true}) {
    const std::vector<std::vector<Op>> lists = {
        {transfer(OpKind::send_activation, 1, false), transfer(OpKind::receive_activation, 1, returns)},
        {transfer(OpKind::send_activation, 0, returns), transfer(OpKind::receive_activation, 0, false)}};
    LaneQueues apart(lists, Messages::apart);  // MPI: well in one lane, too
    CHECK(apart.begin(0, 0).size() + apart.begin(0, 1).size() == 0);
    CHECK(apart.begin(1, 0).size() + apart.begin(1, 1).size() == 2);
    CHECK(apart.left().empty());
    LaneQueues lanes(lists, Messages::queues);
    CHECK(lanes.begin(0, 0).empty());
    CHECK(lanes.begin(0, 1).empty());
    CHECK(lanes.begin(1, 0).size() == (returns ? 1 : 0));
    CHECK(lanes.begin(1, 1).size() == (returns ? 1 : 0));
    CHECK(lanes.left().size() == (returns ? 0 : 2));
  }
  // A transfer behind another one begins when that is done.
  const std::vector<std::vector<Op>> line = {
      {transfer(OpKind::send_activation, 1, false)},
      {transfer(OpKind::receive_activation, 0, false), transfer(OpKind::send_activation, 2, false)},
      {transfer(OpKind::receive_activation, 1, false)}};
  LaneQueues lanes(line, Messages::queues);
  CHECK(lanes.begin(2, 0).empty());
  CHECK(lanes.begin(1, 0).empty());
  CHECK(lanes.begin(1, 1).empty());
  const Arrivals both = lanes.begin(0, 0);
  REQUIRE(both.size() == 2);
  CHECK(arrived({both[0]}, 1, 0));
  CHECK(arrived({both[1]}, 2, 0));
  CHECK(lanes.left().empty());
}

TEST_CASE("the checker finds reductions and TP work in different orders on the members of a group") {
  Schedule schedule = every_kind();
  std::vector<Op>& ops = schedule.ranks[4];
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].kind == OpKind::gather) starts.push_back(i);
  REQUIRE(starts.size() == 2);
  // Both updates come first, then both gathers in the reverse order.
  std::vector<Op> moved = {ops[starts[0] - 1], ops[starts[1] - 1], ops[starts[1]], ops[starts[0]]};
  std::copy(moved.begin(), moved.end(), ops.begin() + static_cast<long>(starts[0]) - 1);
  CHECK_FALSE(check(schedule).empty());

  schedule = every_kind();
  std::vector<Op>& tensor = schedule.ranks[2];
  const auto find = [&](OpKind kind, int m) {
    return std::find_if(tensor.begin(), tensor.end(),
                        [&](const Op& op) { return op.kind == kind && op.micro_batch == m; });
  };
  std::iter_swap(find(OpKind::forward, 0), find(OpKind::forward, 1));
  CHECK_FALSE(check(schedule).empty());
}
