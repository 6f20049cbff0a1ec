// Plans whose stages hold several chunks: their layouts and the operations of their ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "tests/unit/torchrt_plans.hpp"
#include "tests/unit/torchrt_schedule_cases.hpp"
#include "torchrt/schedule/must_run.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

ParallelLimits chunks(int per_stage, bool v_shaped = false) {
  ParallelLimits limits;
  limits.chunks = per_stage;
  limits.v_shaped = v_shaped;
  return limits;
}

Plan line(int stages, int layers, int micro_batches) {
  std::vector<std::pair<std::string, int>> gpus;
  for (int s = 0; s < stages; ++s) gpus.push_back({"a", s});
  return pipeline_of(gpus, layers, micro_batches);
}

ScheduleOptions named(const std::string& name) {
  ScheduleOptions options;
  options.name = name;
  return options;
}

// Of each generator, with the chunks that suit it.
struct Kind {
  std::string name;
  ParallelLimits limits;
};
std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const pipeline::Generator& one : pipeline::generators()) {
    const std::string name = one.name;
    for (int per_stage = 1; per_stage <= 3; ++per_stage)
      if (one.chunks_per_rank == 0 || one.chunks_per_rank == per_stage)
        all.push_back({name, chunks(per_stage, per_stage == 2 && name != "gpipe" && name != "interleaved" &&
                                                   name != "memory-min")});
  }
  return all;
}

std::string first(const std::vector<std::string>& problems) { return problems.empty() ? "" : problems.front(); }

}  // namespace

TEST_CASE("1F1B and GPipe on one chunk per stage: a change of their lists is noticed") {
  std::mt19937 random(17);
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a of all lists
  for (int round = 0; round < 200; ++round) {
    const Plan plan = any_plan(random, 6);
    ScheduleOptions options = any_options(random);
    options.recompute = random() % 2 == 0;
    for (const char c : describe(make_schedule(make_layout(plan, 6), options))) {
      hash ^= static_cast<unsigned char>(c);
      hash *= 1099511628211ULL;
    }
  }
  CHECK(hash == 0xe06db2afa5114027ULL);
}

// Runs all ranks as far as they come; `stopped` does not get beyond operation `at`. Returns whether the message that
// this operation receives is sent by then.
namespace {
bool sent_without(const Schedule& schedule, std::size_t stopped, std::size_t at) {
  const Op& receive = schedule.ranks[stopped][at];
  std::vector<std::size_t> next(schedule.ranks.size(), 0);
  std::set<std::tuple<int, int, OpKind, int, int>> sent;  // from, to, kind, chunk that receives, micro-batch
  const auto name = [](int from, int to, const Op& op) {
    const bool forward = op.kind == OpKind::send_activation || op.kind == OpKind::receive_activation;
    const int chunk = is_receive(op.kind) ? op.chunk : op.chunk + (forward ? 1 : -1);
    return std::tuple(from, to, forward ? OpKind::forward : OpKind::backward, chunk, op.micro_batch);
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < next.size(); ++r) {
      const std::vector<Op>& ops = schedule.ranks[r];
      const std::size_t end = r == stopped ? at : ops.size();
      for (; next[r] < end; ++next[r], progress = true) {
        const Op& op = ops[next[r]];
        if (op.kind == OpKind::send_activation || op.kind == OpKind::send_gradient)
          sent.insert(name(static_cast<int>(r), op.peer, op));
        if (op.kind != OpKind::forward && op.kind != OpKind::backward) continue;
        const OpKind from = op.kind == OpKind::forward ? OpKind::receive_activation : OpKind::receive_gradient;
        const bool waits = std::any_of(ops.begin(), ops.begin() + static_cast<long>(next[r]), [&](const Op& one) {
          return one.kind == from && one.chunk == op.chunk && one.micro_batch == op.micro_batch &&
                 !sent.contains(name(one.peer, static_cast<int>(r), one));
        });
        if (waits) break;
      }
    }
  }
  return sent.contains(name(receive.peer, static_cast<int>(stopped), receive));
}
}  // namespace

TEST_CASE("lists that messages of their own let run, and a lane's queue does not, are refused for GPUs alone") {
  // A V on three stages. The middle one sends the second micro-batch down and then asks for the third, in one lane.
  // The last stage takes the second only after it went back through the first, for which the middle one needs the
  // third.
  const int chunk_of[3][2] = {{0, 5}, {1, 4}, {2, 3}};
  pipeline::Schedule lists;
  lists.micro_batches = 3;
  lists.rank_of_chunk = {0, 1, 2, 2, 1, 0};
  lists.actions.resize(3);
  for (std::size_t s = 0; s < 3; ++s) {
    const auto [down, up] = chunk_of[s];
    const auto add = [&](pipeline::Compute kind, int chunk, int m) { lists.actions[s].push_back({kind, chunk, m}); };
    if (s < 2)
      for (int m = 0; m < 3; ++m) add(pipeline::Compute::forward, down, m);
    for (int m = 0; m < 3; ++m) {
      if (s == 2) add(pipeline::Compute::forward, down, m);
      add(pipeline::Compute::forward, up, m);
      add(pipeline::Compute::backward, up, m);
      add(pipeline::Compute::backward, down, m);
    }
  }
  const Layout layout = make_layout(in_chunks(line(3, 6, 3), chunks(2, true)), 6);
  ScheduleOptions options = named("zb-v");
  options.given = std::make_shared<const pipeline::Schedule>(lists);
  const Schedule schedule = make_schedule(layout, options);
  CHECK_MESSAGE(check(schedule, Messages::apart).empty(), first(check(schedule, Messages::apart)));
  CHECK(first(check(schedule, Messages::queues)).find("waits for ever") != std::string::npos);
  CHECK_NOTHROW(must_run(options, layout, messages_of(DeviceKind::cpu)));
  CHECK_THROWS_AS(must_run(options, layout, messages_of(DeviceKind::cuda)), Error);
}

TEST_CASE("a receive that is begun waits for nothing that its own rank has yet to do") {
  int receives = 0;
  for (const char* name : {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"})
    for (const int micro_batches : {1, 2, 4}) {
      ScheduleOptions options;
      options.name = name;
      const bool chunked = std::string(name) == "interleaved" || std::string(name) == "zb-v";
      const Plan plan = in_chunks(line(3, 6, micro_batches), chunks(chunked ? 2 : 1, std::string(name) == "zb-v"));
      const Schedule schedule = make_schedule(make_layout(plan, 6), options);
      for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
        for (std::size_t i = 0; i < schedule.ranks[r].size(); ++i) {
          const Op& op = schedule.ranks[r][i];
          if (op.kind != OpKind::receive_activation && op.kind != OpKind::receive_gradient) continue;
          CHECK_MESSAGE(sent_without(schedule, r, i), name, ", ", micro_batches, " micro-batches, rank ", r, ": ",
                        describe(op, true));
          ++receives;
        }
    }
  CHECK(receives > 100);
}

TEST_CASE("the chunks of a rank give its units") {
  const Layout looped = make_layout(in_chunks(line(2, 6, 4), chunks(2)), 6);
  CHECK(looped.ranks[0].units == std::vector<int>{0, 1, 4, 5});  // the chunk with the embedding gets one layer of 3
  CHECK(looped.ranks[1].units == std::vector<int>{2, 3, 6, 7});
  CHECK(looped.ranks[0].has_embedding);
  CHECK_FALSE(looped.ranks[0].has_head);
  CHECK(looped.ranks[1].has_head);
  CHECK(looped.stage_of_unit(4).first_rank == 0);
  CHECK(looped.chunk_of_unit(4) == 2);
  const Layout v = make_layout(in_chunks(line(2, 6, 4), chunks(2, true)), 6);
  CHECK(v.ranks[0].units == std::vector<int>{0, 1, 2, 6, 7});
  CHECK(v.ranks[0].has_embedding);
  CHECK(v.ranks[0].has_head);
  CHECK(v.ranks[1].units == std::vector<int>{3, 4, 5});
}

TEST_CASE("an embedding and a head may be chunks of their own") {
  Plan plan = line(2, 2, 2);
  plan.chunks = {{0, 0}, {1, 1}, {0, 1}, {1, 0}};
  const Layout layout = make_layout(plan, 2);
  CHECK(layout.ranks[0].units == std::vector<int>{0, 2});
  CHECK(layout.ranks[1].units == std::vector<int>{1, 3});
  CHECK(first(check(make_schedule(layout, named("interleaved")))) == "");
}

TEST_CASE("every known schedule gives sound lists on every number of stages and micro-batches") {
  for (const Kind& kind : kinds())
    for (int stages = 1; stages <= 5; ++stages)
      for (const int micro_batches : {1, 2, 3, 4, 7, 8, 12}) {
        CAPTURE(kind.name);
        CAPTURE(kind.limits.chunks);
        CAPTURE(stages);
        CAPTURE(micro_batches);
        const Plan plan = in_chunks(line(stages, 15, micro_batches), kind.limits);
        CHECK(first(check(make_schedule(make_layout(plan, 15), named(kind.name)))) == "");
      }
}

TEST_CASE("chunks go with uneven layers, mixed DP and TP, shares, ZeRO-1, tied tables and recomputing") {
  std::mt19937 random(31);
  const std::vector<Kind> all = kinds();
  int chunked = 0;
  for (int round = 0; round < 400; ++round) {
    const Kind& kind = all[random() % all.size()];
    const Plan plan = in_chunks(any_plan(random, 9), kind.limits);
    ScheduleOptions options = any_options(random);
    options.name = kind.name;
    options.recompute = random() % 3 == 0;
    CAPTURE(describe(plan));
    CAPTURE(options.name);
    const Layout layout = make_layout(plan, 9);
    chunked += layout.chunked();
    // The stages of a plan with few layers get fewer chunks than the name needs, and the name then is 1F1B.
    CHECK(first(check(make_schedule(layout, options))) == "");
  }
  CHECK(chunked > 100);
}

TEST_CASE("a rank's list names its chunks, and neighbours on one stage send nothing") {
  const Plan plan = in_chunks(line(2, 4, 1), chunks(2, true));
  const Schedule schedule = make_schedule(make_layout(plan, 4), named("zb-v"));
  for (const Op& op : schedule.ranks[1])
    if (is_send(op.kind)) CHECK(op.peer == 0);
  const std::string text = describe(schedule);
  CHECK(text.find("rank 1: stage 1 replica 0 chunk 1: units 2-2 chunk 2: units 3-3") != std::string::npos);
  CHECK(text.find("forward 0 chunk 1\n  forward 0 chunk 2\n  send activation 0 chunk 2 [0,2) to 0") !=
        std::string::npos);
}

TEST_CASE("in a list with I and W the gradient of the weights comes apart") {
  const Schedule schedule = make_schedule(make_layout(line(4, 4, 8), 4), named("zb-h1"));
  int apart = 0;
  for (const std::vector<Op>& ops : schedule.ranks)
    for (std::size_t i = 1; i < ops.size(); ++i)
      if (ops[i].kind == OpKind::weight_gradient && ops[i].micro_batch >= 0) {
        const auto input = std::find_if(ops.begin(), ops.end(), [&](const Op& op) {
          return op.kind == OpKind::backward && op.chunk == ops[i].chunk && op.micro_batch == ops[i].micro_batch;
        });
        const auto between = std::find_if(input, ops.begin() + static_cast<std::ptrdiff_t>(i),
                                          [](const Op& op) { return op.kind == OpKind::forward; });
        apart += between != ops.begin() + static_cast<std::ptrdiff_t>(i);
      }
  CHECK(apart > 0);
}

TEST_CASE("a schedule that puts its chunks elsewhere than the plan is refused") {
  const Layout looped = make_layout(in_chunks(line(2, 6, 4), chunks(2)), 6);
  CHECK_THROWS_WITH_AS(
      make_schedule(looped, named("zb-v")),
      doctest::Contains("\"zb-v\" wants its chunks on the stages 0 1 1 0, the plan has them on 0 1 0 1"), Error);
  CHECK_THROWS_AS(make_schedule(looped, named("1f1b")), Error);
  Plan uneven = line(2, 6, 4);
  uneven.chunks = {{0, 1}, {1, 3}, {0, 2}};
  CHECK_THROWS_AS(make_schedule(make_layout(uneven, 6), named("interleaved")), Error);
}

TEST_CASE("a list for another number of micro-batches, other chunks or other stages is refused") {
  const Layout layout = make_layout(line(2, 6, 4), 6);
  const pipeline::Schedule good = order_of_work(layout, named("1f1b"));
  const auto refused = [&](const auto& spoil) {
    pipeline::Schedule bad = good;
    spoil(bad);
    CHECK_THROWS_WITH_AS(lower(layout, {}, bad, 0), doctest::Contains("other stages, chunks or micro-batches"), Error);
  };
  refused([](pipeline::Schedule& bad) { bad.micro_batches = 3; });
  refused([](pipeline::Schedule& bad) { bad.rank_of_chunk = {1, 0}; });
  refused([](pipeline::Schedule& bad) { bad.actions.pop_back(); });
  refused([](pipeline::Schedule& bad) { bad.actions[0][0].chunk = 1; });
  refused([](pipeline::Schedule& bad) { bad.actions[0][0].chunk = 9; });
}

TEST_CASE("a plan with too few layers for its chunks gets fewer, and the schedule that needs them becomes 1F1B") {
  const Plan plan = in_chunks(line(3, 3, 4), chunks(2, true));
  CHECK(plan.chunks.empty());
  const Layout layout = make_layout(plan, 3);
  CHECK(order_of_work(layout, named("zb-v")) == order_of_work(layout, named("1f1b")));
  CHECK(in_chunks(line(2, 2, 4), chunks(3)).chunks.size() == 4);
}
