#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/schedule/op.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Stages of 1, 3 and 2 replicas with uneven shares.
Plan ragged_plan() {
  return short_plan({{{4, "a", 0}}, {{1, "a", 1}, {2, "a", 2}, {1, "a", 3}}, {{3, "b", 0}, {1, "b", 1}}}, 7, 5, 4);
}

Schedule ragged(const std::string& name = "1f1b") { return make_schedule(make_layout(ragged_plan(), 7), name); }

std::vector<Op>::iterator first(std::vector<Op>& ops, OpKind kind) {
  return std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.kind == kind; });
}

}  // namespace

TEST_CASE("generated schedules are sound for every number of stages and micro-batches") {
  for (const char* name : {"1f1b", "gpipe"})
    for (int stages = 1; stages <= 8; ++stages)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        std::vector<std::pair<std::string, int>> gpus;
        for (int s = 0; s < stages; ++s) gpus.push_back({"a", s});
        const Schedule schedule = make_schedule(make_layout(pipeline(gpus, 8, micro_batches), 8), name);
        CHECK_MESSAGE(check(schedule).empty(), name, " ", stages, " stages, ", micro_batches, " micro-batches");
      }
}

TEST_CASE("generated schedules are sound when neighbours differ in replicas and shares") {
  CHECK(check(ragged("1f1b")).empty());
  CHECK(check(ragged("gpipe")).empty());
}

TEST_CASE("1f1b keeps at most as many micro-batches in flight as stages remain") {
  const Schedule schedule =
      make_schedule(make_layout(pipeline({{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}}, 8, 8), 8), "1f1b");
  for (std::size_t r = 0; r < 4; ++r) {
    int flying = 0, most = 0;
    for (const Op& op : schedule.ranks[r]) {
      if (op.kind == OpKind::forward) most = std::max(most, ++flying);
      if (op.kind == OpKind::backward) --flying;
    }
    CHECK(most == 4 - static_cast<int>(r));
  }
}

TEST_CASE("samples are dealt to the neighbours that own them") {
  const Schedule schedule = ragged();
  std::vector<Op> sends;
  for (const Op& op : schedule.ranks[2])  // second replica of stage 1: samples 1 and 2
    if (op.kind == OpKind::send_activation && op.micro_batch == 0) sends.push_back(op);
  REQUIRE(sends.size() == 1);
  CHECK(sends[0] == Op{OpKind::send_activation, 0, -1, 4, 1, 2});
  sends.clear();
  for (const Op& op : schedule.ranks[0])
    if (op.kind == OpKind::send_activation && op.micro_batch == 3) sends.push_back(op);
  REQUIRE(sends.size() == 3);
  CHECK(sends[1] == Op{OpKind::send_activation, 3, -1, 2, 1, 2});
}

TEST_CASE("an unknown schedule is an error that names the known ones") {
  CHECK_THROWS_WITH_AS(ragged("zigzag"), "schedule: \"zigzag\" is unknown; known are \"1f1b\" and \"gpipe\"", Error);
}

TEST_CASE("the checker finds a deadlock") {
  Schedule schedule = ragged();
  std::vector<Op>& ops = schedule.ranks[0];
  // Wants a gradient of the second micro-batch before it sent the activation of the first.
  const Op gradient = *first(ops, OpKind::receive_gradient);
  ops.erase(first(ops, OpKind::receive_gradient));
  ops.insert(first(ops, OpKind::send_activation), gradient);
  const std::vector<std::string> problems = check(schedule);
  REQUIRE_FALSE(problems.empty());
  CHECK(problems[0].find("waits for ever") != std::string::npos);
}

TEST_CASE("the checker finds what is missing, repeated or out of order") {
  const auto broken = [](int rank, OpKind kind, auto change) {
    Schedule schedule = ragged();
    std::vector<Op>& ops = schedule.ranks[static_cast<std::size_t>(rank)];
    change(ops, first(ops, kind));
    return check(schedule);
  };
  const auto erase = [](std::vector<Op>& ops, auto op) { ops.erase(op); };
  const auto repeat = [](std::vector<Op>& ops, auto op) { ops.insert(op, *op); };
  const auto shorten = [](std::vector<Op>&, auto op) { --op->count; };
  const auto to_end = [](std::vector<Op>& ops, auto op) { std::rotate(op, op + 1, ops.end()); };
  for (const OpKind kind :
       {OpKind::receive_activation, OpKind::forward, OpKind::send_activation, OpKind::receive_gradient,
        OpKind::backward, OpKind::send_gradient, OpKind::reduce, OpKind::agree, OpKind::update}) {
    CAPTURE(describe(Op{kind}));
    CHECK_FALSE(broken(2, kind, erase).empty());
    CHECK_FALSE(broken(2, kind, repeat).empty());
  }
  CHECK_FALSE(broken(2, OpKind::send_activation, shorten).empty());
  CHECK_FALSE(broken(2, OpKind::agree, to_end).empty());
  CHECK_FALSE(broken(2, OpKind::backward, to_end).empty());
}

TEST_CASE("a schedule can be printed") {
  const std::string text = describe(make_schedule(make_layout(pipeline({{"a", 0}, {"a", 1}}, 2, 1), 2), "1f1b"));
  CHECK(text ==
        "rank 0: stage 0 replica 0 units 0-1 samples 0-1\n  forward 0\n  send activation 0[0,2) to 1\n"
        "  receive gradient 0[0,2) from 1\n  backward 0\n  agree\n  update unit 0\n  update unit 1\n"
        "rank 1: stage 1 replica 0 units 2-3 samples 0-1\n  receive activation 0[0,2) from 0\n  forward 0\n"
        "  backward 0\n  send gradient 0[0,2) to 0\n  agree\n  update unit 2\n  update unit 3\n");
}

TEST_CASE("a layout refuses what the runtime cannot run") {
  CHECK_THROWS_AS(make_layout(pipeline({{"a", 0}, {"a", 1}}, 4), 8), Error);  // layers of another model
  Plan plan = pipeline({{"a", 0}}, 4);
  plan.stages[0].tp = 2;
  plan.stages[0].replicas[0].gpus.push_back({"a", 1});
  CHECK_THROWS_WITH_AS(make_layout(plan, 4),
                       "plan: a stage has tensor-parallel degree 2; this runtime runs pipeline and data parallelism, "
                       "use TP 1",
                       Error);
}
