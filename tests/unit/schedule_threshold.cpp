// Whether growth is worth its cost: the threshold, reclaiming, and the cost of a change.
#include <doctest/doctest.h>

#include <map>

#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Job 10 has two GPUs and two more are idle. It and other jobs use three quarters of the cluster.
PlanningInput busy() {
  auto input = input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})});
  hold(input.cluster, {77, "n2", {0, 1, 2, 3}});
  return input;
}

// The same after job 10 has taken the idle GPUs. Its benefit is about 0.43.
PlanningInput lent() {
  auto grown = job(10, "n1", {0, 1});
  extend(grown, 20, "n1", {2, 3});
  auto input = input_of({node("n1", 4), node("n2", 4)}, {grown});
  hold(input.cluster, {77, "n2", {0, 1, 2, 3}});
  return input;
}

SchedulerOptions with_lambda(double lambda) {
  SchedulerOptions options;
  options.lambda = lambda;
  return options;
}

}  // namespace

TEST_CASE("the threshold keeps a poor scale-out back, and the scheduler says so") {
  const auto scheduler = make_suika_scheduler(with_lambda(1));
  CHECK(scheduler->decide(busy()).empty());
  REQUIRE(scheduler->weighed().size() == 1);
  const Weighed& note = scheduler->weighed()[0];
  CHECK(note.job == 10);
  CHECK(note.gpus >= 1);
  CHECK(note.threshold == doctest::Approx(0.75));
  CHECK(note.benefit > 0.3);
  CHECK(note.benefit < 0.75);
  CHECK(note.verdict == "its best marginal benefit is below the threshold");
  CHECK(decide(busy(), with_lambda(8)).size() == 1);
}

TEST_CASE("extensions are no basic demand, also those of jobs that are not up for a decision") {
  auto input = busy();
  input.extensions = {77};  // now only a quarter of the cluster is in use
  const auto decisions = decide(input, with_lambda(1));
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].kind == DecisionKind::grow);
}

TEST_CASE("without idle GPUs the scheduler says that there are none") {
  auto input = busy();
  hold(input.cluster, {78, "n1", {2, 3}});
  const auto scheduler = make_suika_scheduler(bold());
  CHECK(scheduler->decide(input).empty());
  REQUIRE(scheduler->weighed().size() == 1);
  CHECK(scheduler->weighed()[0].verdict == "there are no idle GPUs for it");
}

TEST_CASE("scale-outs below the threshold are taken back when the cluster fills") {
  const auto d = decide(lent(), with_lambda(1)).at(0);
  CHECK(d.kind == DecisionKind::shrink);
  CHECK(d.release == std::vector<JobId>{20});
  CHECK(d.plan == *job(10, "n1", {0, 1}).plan);
  CHECK(d.reason.find("the cluster has filled") != std::string::npos);
  CHECK(d.predicted_step_seconds > 1);  // it becomes slower, and the prediction says so
}

TEST_CASE("within the hysteresis a scale-out stays") {
  auto options = with_lambda(1);
  options.hysteresis = 0.5;  // 0.375 instead of 0.675
  CHECK(decide(lent(), options).empty());
}

TEST_CASE("with reclaim off a scale-out stays, until somebody waits for it") {
  auto options = with_lambda(1);
  options.reclaim = false;
  CHECK(decide(lent(), options).empty());
  auto input = lent();
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  CHECK(decide(input, options).size() == 1);
}

TEST_CASE("within its cooldown a job keeps its scale-outs, until somebody waits for them") {
  auto input = lent();
  input.last_change[10] = input.now - 5;
  CHECK(decide(input, with_lambda(1)).empty());
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  CHECK(decide(input, with_lambda(1)).size() == 1);
}

TEST_CASE("a discount changes who wins") {
  auto input = input_of({node("n1", 2), node("n2", 2), node("n3", 2)}, {job(10, "n1", {0, 1}), job(11, "n2", {0, 1})});
  CHECK(decide(input).at(0).job == 10);
  auto options = bold();
  options.discount = [](const ElasticJob& one) { return one.id == 10 ? 0.5 : 1.0; };
  const auto decisions = decide(input, options);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].job == 11);
}

TEST_CASE("a change that costs more than the idle time gains is not made") {
  CHECK(decide(busy()).size() == 1);
  auto options = bold();
  options.idle_seconds = 1;
  CHECK(decide(busy(), options).empty());
  auto input = busy();
  input.redeploy_seconds[10] = 1000;  // measured; 300 s of idle time gain 130 s
  const auto scheduler = make_suika_scheduler(bold());
  CHECK(scheduler->decide(input).empty());
  CHECK(scheduler->weighed().at(0).verdict == "no set of the idle GPUs would pay for the change");
  input.redeploy_seconds[10] = 10;
  CHECK(scheduler->decide(input).size() == 1);
}

TEST_CASE("GPUs that are likely to be needed before the new generation has started are left idle") {
  auto input = busy();
  auto options = bold();
  options.idle_seconds = 60;
  CHECK(decide(input, options).size() == 1);
  input.start_seconds[10] = 75;
  CHECK(decide(input, options).empty());
  input.start_seconds[10] = 20;
  CHECK(decide(input, options).size() == 1);
}

TEST_CASE("a gain smaller than the least is none") {
  auto options = bold();
  options.least_gain = 3;
  CHECK(decide(busy(), options).empty());
}

namespace {

// `input` after its only job has made `growth`: an extension on each node.
PlanningInput grown_by(PlanningInput input, const Decision& growth) {
  ElasticJob& grown = input.jobs[0];
  grown.plan = growth.plan;
  grown.step_seconds = growth.predicted_step_seconds;
  JobId next = 20;
  std::map<std::string, std::vector<int>> lent;
  for (const GpuId& gpu : growth.plan.ranks()) {
    const NodeView* view = nullptr;
    for (const NodeView& one : input.cluster.nodes)
      if (one.name == gpu.node) view = &one;
    if (view->gpu_owner[static_cast<std::size_t>(gpu.index)] == 0) lent[gpu.node].push_back(gpu.index);
  }
  for (const auto& [name, gpus] : lent) {
    grown.extensions.push_back({next++, name, gpus});
    hold(input.cluster, grown.extensions.back());
  }
  return input;
}

}  // namespace

TEST_CASE("what a job was just lent is not taken back while nothing has changed") {
  int growths = 0, of_several_nodes = 0;
  for (const double deadline : {0.0, 300.0, 500.0, 700.0, 900.0})
    for (double lambda = 0.2; lambda < 4; lambda += 0.1) {
      CAPTURE(deadline);
      CAPTURE(lambda);
      auto one = job(10, "n1", {0, 1}, 64);
      deepen(one, 32);
      one.total_steps = 1000;  // 1,000 s of work
      if (deadline > 0) one.deadline = 1000 + deadline;
      auto input = input_of({node("n1", 2), node("n2", 2), node("n3", 2), node("n4", 2), node("n5", 2), node("n6", 2),
                             node("n7", 4), node("n8", 4)},
                            {one});
      hold(input.cluster, {77, "n7", {0, 1, 2, 3}});
      hold(input.cluster, {78, "n8", {0, 1, 2, 3}});
      const auto first = decide(input, with_lambda(lambda));
      if (first.empty() || first[0].kind != DecisionKind::grow) continue;
      ++growths;
      input = grown_by(std::move(input), first[0]);
      of_several_nodes += input.jobs[0].extensions.size() > 1;
      for (const Decision& next : decide(input, with_lambda(lambda))) CHECK(next.kind != DecisionKind::shrink);
    }
  CHECK(growths >= 50);
  CHECK(of_several_nodes >= 10);
}
