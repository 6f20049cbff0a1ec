// Trials of plans: what is tried, in which order, and what stays. The true step time is a function that the model does
// not know.
#include <doctest/doctest.h>

#include <ctime>
#include <functional>
#include <random>

#include "planner/core/model/model_sizes.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/plan_trials.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

using Truth = std::function<double(const PlanShape&)>;

// A job on four GPUs of one node, whose coefficients are measured. It starts on `plan`.
struct Trained {
  ElasticJob job = test::job(10, "n1", {0, 1, 2, 3}, 4);
  std::shared_ptr<const Site> site;
  JobCoefficients known;
  PlanTrials trials;
  Truth truth;
  int changes = 0;

  Trained(Truth seconds, Accuracy accuracy, int pp, int dp, int micro_batches, int tp) : truth(std::move(seconds)) {
    job.accuracy = accuracy;
    job.parallel = {};
    job.model.heads = 8;
    job.plan = plan(pp, dp, micro_batches, tp);
    job.total_steps = 100000;
    site = neutral_site(input_of({node("n1", 4)}, {job}).cluster);
    known = model_sizes(job.model, {}, 1);
    known.gpu[0] = {1, 2, 0.01, 1, false, false, false, false};
    known.tp_degrees = {1, 2, 4};
    known.global_batch = 8;
    train();
  }
  Plan plan(int pp, int dp, int micro_batches, int tp) const {
    return uniform_plan(pp, dp, 8, 8, micro_batches, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}}, tp);
  }
  void train() {
    job.step_seconds = truth(shape_of(*job.plan));
    note_steps(trials, job);
    job.step += kTrialSteps;
    CHECK(note_steps(trials, job));
  }
  // As the planner does it. Whether something was changed.
  bool change(int most) {
    const auto next = next_trial(trials, job, *site, known, most);
    if (!next) return false;
    CHECK(next->kind == DecisionKind::migrate);
    CHECK(next->acquire.empty());
    CHECK(next->release.empty());
    CHECK(validate(next->plan, 8).empty());
    CHECK(next->plan != *job.plan);
    if (!is_measured(trials, next->plan)) trials.begun.push_back(shape_of(next->plan));
    job.plan = next->plan;
    ++job.generation;
    ++changes;
    train();
    return true;
  }
  void run(int most) {
    while (change(most)) REQUIRE(changes <= most + 1);
  }
  double best() const {
    double least = 1e9;
    for (const MeasuredPlan& one : trials.measured) least = std::min(least, one.step_seconds);
    return least;
  }
};

}  // namespace

TEST_CASE("a job ends on the fastest of the plans that it tried, though the model thinks another one faster") {
  // Shards are used badly: each doubling of the TP degree costs half a second.
  Trained one([](const PlanShape& shape) { return 1 + 0.5 * (shape.tp - 1) + 0.01 * shape.micro_batches; },
              Accuracy::relaxed, 1, 1, 4, 4);
  one.run(4);
  CHECK(shape_of(*one.job.plan).tp == 1);
  CHECK(one.job.step_seconds <= 1.01 * one.best());
  CHECK(one.trials.begun.size() <= 4);
  CHECK(one.changes <= 5);
}

TEST_CASE("the first plan is gone back to where no other one is faster") {
  Trained one(
      [](const PlanShape& shape) {
        return shape == PlanShape{1, 1, 2} ? 1 : 1.2;
      },
      Accuracy::relaxed, 1, 4, 2, 1);
  const Plan first = *one.job.plan;
  one.run(3);
  CHECK(one.changes >= 2);
  CHECK(*one.job.plan == first);
}

TEST_CASE("plans whose times differ by less than a percent are not changed for each other") {
  Trained one([](const PlanShape& shape) { return 1 + 0.001 * shape.tp; }, Accuracy::relaxed, 1, 4, 2, 1);
  one.run(3);
  CHECK(one.changes == static_cast<int>(one.trials.begun.size()));  // it stays on the last that it tried
}

TEST_CASE("the last trial is of micro-batches") {
  Trained one([](const PlanShape& shape) { return shape.micro_batches == 1 ? 0.5 : 1; }, Accuracy::relaxed, 1, 4, 2, 1);
  one.run(2);
  CHECK(shape_of(*one.job.plan).micro_batches == 1);
  CHECK(one.job.step_seconds == 0.5);
}

TEST_CASE("bitwise: the TP degree stays") {
  Trained one([](const PlanShape& shape) { return 1.0 / shape.stages; }, Accuracy::bitwise, 1, 4, 2, 1);
  one.run(6);
  CHECK(one.changes > 0);
  for (const PlanShape& shape : one.trials.begun) CHECK(shape.tp == 1);
}

TEST_CASE("nothing is tried twice, a failed trial neither, and none where none is allowed") {
  Trained one([](const PlanShape&) { return 1.0; }, Accuracy::relaxed, 1, 4, 2, 1);
  CHECK_FALSE(next_trial(one.trials, one.job, *one.site, one.known, 0));
  const auto first = next_trial(one.trials, one.job, *one.site, one.known, 2);
  REQUIRE(first);
  one.trials.begun.push_back(shape_of(first->plan));  // it did not start
  const auto second = next_trial(one.trials, one.job, *one.site, one.known, 2);
  REQUIRE(second);
  CHECK(shape_of(second->plan) != shape_of(first->plan));
  one.trials.begun.push_back(shape_of(second->plan));
  CHECK_FALSE(next_trial(one.trials, one.job, *one.site, one.known, 2));
}

TEST_CASE("a plan counts after 20 steps, and other GPUs begin anew") {
  Trained one([](const PlanShape&) { return 1.0; }, Accuracy::relaxed, 1, 4, 2, 1);
  one.trials.begun.push_back({4, 1, 2});
  ++one.job.generation;
  CHECK_FALSE(note_steps(one.trials, one.job));
  one.job.step += kTrialSteps - 1;
  CHECK_FALSE(note_steps(one.trials, one.job));
  ++one.job.step;
  CHECK(note_steps(one.trials, one.job));
  CHECK(one.trials.begun.size() == 1);
  ++one.job.generation;
  one.job.plan = uniform_plan(1, 2, 8, 8, 2, {{"n1", 0}, {"n1", 1}});
  CHECK_FALSE(note_steps(one.trials, one.job));
  CHECK(one.trials.begun.empty());
  CHECK(one.trials.measured.empty());
}

TEST_CASE("plans that the model thinks far slower are not tried") {
  Trained one([](const PlanShape&) { return 1.0; }, Accuracy::relaxed, 1, 4, 2, 1);
  one.known.activ_bytes = 1e12;  // what goes from stage to stage, and what a replica's GPUs sum, takes for ever
  one.run(6);
  CHECK(one.changes > 0);
  for (const PlanShape& shape : one.trials.begun) {
    CHECK(shape.stages == 1);
    CHECK(shape.tp == 1);
  }
}

TEST_CASE("a look at a job of 64 GPUs takes milliseconds, and one at 1,024 does not hold up decisions") {
  for (const int count : {8, 128}) {
    std::vector<NodeView> nodes;
    std::vector<Holding> held;
    std::vector<GpuId> gpus;
    for (int n = 100; n < 100 + count; ++n) {
      const std::string name = "n" + std::to_string(n);
      nodes.push_back(node(name, 8));
      held.push_back({10, name, {0, 1, 2, 3, 4, 5, 6, 7}});
      for (int g = 0; g < 8; ++g) gpus.push_back({name, g});
    }
    ElasticJob large = test::job(10, "n100", {0}, 8 * count);
    large.accuracy = Accuracy::relaxed;
    large.parallel = {};
    large.model.layers = 48;
    large.model.heads = 16;
    large.anchor = held;
    large.plan = uniform_plan(4, 2 * count / 4, 48, 512, 4, gpus, 4);
    large.total_steps = 100000;
    const auto site = neutral_site(input_of(nodes, {large}).cluster);
    JobCoefficients known = model_sizes(large.model, {}, 1);
    known.gpu[0] = {1, 2, 0.01, 8, false, false, false, false};
    known.tp_degrees = {1, 2, 4, 8};
    known.global_batch = 512;
    PlanTrials trials;
    note_steps(trials, large);
    large.step += kTrialSteps;
    REQUIRE(note_steps(trials, large));
    const std::clock_t begin = std::clock();
    const auto next = next_trial(trials, large, *site, known, 3);
    const double ms = 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    CHECK(next.has_value());
    const int all = 8 * count;
    MESSAGE(all << " GPUs: " << ms << " ms of processor time");
    CHECK(ms < (count == 8 ? 500 : 5000));
  }
}
