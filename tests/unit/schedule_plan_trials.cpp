// Trials of plans: what is tried, in which order, and what stays. The true step time is a function that the model does
// not know.
#include <doctest/doctest.h>

#include <cmath>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/plan_residuals.hpp"
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
  int changes = 0, in_place = 0;

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
    if (!keeps_places(*job.plan, next->plan)) ++job.generation;  // else the generation that runs goes on with it
    else ++in_place;
    job.plan = next->plan;
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

// GPUs that the model is wrong about, by so much for each doubling of the TP degree, the stages and the micro-batches'
// length, and by some chance. What the job ends on, of the fastest plan that there is; and what it would if the plans
// that the model thinks fastest were tried.
struct Ends {
  double learned = 0, by_model = 0;
};
Ends ends_of(std::mt19937& random, int most) {
  std::normal_distribution<double> normal;
  const double tp = 0.2 * normal(random), stages = 0.1 * normal(random), length = 0.1 * normal(random);
  std::map<PlanShape, double> chance;
  Trained one([](const PlanShape&) { return 1.0; }, Accuracy::relaxed, 1, 4, 2, 1);
  const auto model = [&](const PlanShape& shape) {
    const int dp = 4 / (shape.stages * shape.tp);
    if (dp * shape.stages * shape.tp != 4 || 8 % (shape.micro_batches * dp) != 0) return 0.0;
    const auto timed = evaluate_plan(one.site->hardware, one.site->topology, one.known,
                                     one.plan(shape.stages, dp, shape.micro_batches, shape.tp));
    return timed.feasible ? timed.exact_ms : 0;
  };
  const auto truth = [&](const PlanShape& shape) {
    if (!chance.contains(shape)) chance[shape] = 0.02 * normal(random);
    const double samples = 8.0 * shape.stages * shape.tp / (4.0 * shape.micro_batches);
    return model(shape) / 1000 *
           std::exp(tp * std::log2(shape.tp) + stages * std::log2(shape.stages) + length * std::log2(samples) +
                    chance[shape]);
  };
  std::vector<PlanShape> shapes;
  for (int pp = 1; pp <= 4; pp *= 2)
    for (int degree = 1; degree <= 4; degree *= 2)
      for (int count = 1; count <= 8; count *= 2)
        if (model({pp, degree, count}) > 0) shapes.push_back({pp, degree, count});
  std::sort(shapes.begin(), shapes.end(), [&](const auto& a, const auto& b) { return model(a) < model(b); });
  double best = 1e300;
  for (const PlanShape& shape : shapes) best = std::min(best, truth(shape));
  one.truth = truth;
  const PlanShape first = shapes.front();
  one.job.plan = one.plan(first.stages, 4 / (first.stages * first.tp), first.micro_batches, first.tp);
  one.trials = {};
  one.train();
  one.run(most);
  Ends ends{best / one.job.step_seconds, best / truth(first)};
  std::set<std::pair<int, int>> degrees{{first.stages, first.tp}};
  for (const PlanShape& shape : shapes)
    if (static_cast<int>(degrees.size()) <= most && degrees.insert({shape.stages, shape.tp}).second)
      ends.by_model = std::max(ends.by_model, best / truth(shape));
  return ends;
}

TEST_CASE(
    "a model that is right is not corrected, whatever plan was measured, and one that is wrong as a whole for all "
    "alike") {
  Trained one([](const PlanShape&) { return 1.0; }, Accuracy::relaxed, 1, 4, 2, 1);
  const Plan narrow = one.plan(1, 1, 8, 4), wide = one.plan(4, 1, 2, 1);
  PlanResiduals right;
  right.add(narrow, 0.5, 0.5);
  CHECK(right.of(wide, 0.8).seconds == doctest::Approx(0.8).epsilon(1e-6));
  PlanResiduals slower;
  for (const Plan* plan : {&narrow, &wide}) slower.add(*plan, 0.5, 0.6);
  CHECK(slower.of(one.plan(2, 2, 4, 1), 1).seconds == doctest::Approx(1.2).epsilon(0.05));
  // A TP degree of 4 that takes 21% longer than predicted, and one of 1 as predicted: one of 2 takes some 10% longer.
  PlanResiduals narrow_is_bad;
  narrow_is_bad.add(narrow, 0.5, 0.5 * 1.21);
  narrow_is_bad.add(one.plan(1, 1, 8, 1), 0.5, 0.5);
  const auto between = narrow_is_bad.of(one.plan(1, 1, 8, 2), 1);
  CHECK(between.seconds == doctest::Approx(1.1).epsilon(0.01));
  CHECK(between.hopeful() < between.seconds);
  CHECK(between.spread < narrow_is_bad.of(wide, 1).spread);  // which is unlike those that were measured
}

TEST_CASE("what measured plans tell of others leads to faster ones") {
  for (const int most : {2, 3, 5}) {
    std::mt19937 random(7);
    double learned = 0, by_model = 0, least = 1;
    constexpr int kCases = 100;
    for (int i = 0; i < kCases; ++i) {
      const Ends ends = ends_of(random, most);
      learned += ends.learned / kCases;
      by_model += ends.by_model / kCases;
      least = std::min(least, ends.learned);
    }
    MESSAGE(most << " trials: " << learned << " of the fastest plan in the mean, " << least
                 << " at least; those that the model thinks fastest: " << by_model);
    CHECK(learned >= 0.95);
    CHECK(learned > by_model);
  }
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

TEST_CASE("no state moves for a trial of micro-batches on the degrees that run") {
  Trained one([](const PlanShape& shape) { return shape.micro_batches == 1 ? 0.5 : 1; }, Accuracy::relaxed, 1, 4, 2, 1);
  one.trials.begun = {{1, 2, 2}, {1, 4, 2}, {2, 1, 2}, {2, 2, 2}, {4, 1, 2}};  // no other degrees are left
  CHECK(one.change(6));
  CHECK(one.in_place == 1);
  CHECK(shape_of(*one.job.plan) == PlanShape{1, 1, 1});
  CHECK(one.job.step_seconds == 0.5);
}

TEST_CASE("the steps of a plan count from the change to it, also in the generation that runs") {
  Trained one([](const PlanShape&) { return 1.0; }, Accuracy::relaxed, 1, 4, 2, 1);
  one.job.plan = one.plan(1, 4, 1, 1);
  CHECK_FALSE(note_steps(one.trials, one.job));
  one.job.step += kTrialSteps - 1;
  CHECK_FALSE(note_steps(one.trials, one.job));
  ++one.job.step;
  CHECK(note_steps(one.trials, one.job));
  CHECK(is_measured(one.trials, *one.job.plan));
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
