// A running job that leaves its schedule to the planner gets a better plan on the GPUs that it has.
#include "planner/core/schedule/replacing.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/pipeline/improve.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/solver/evaluator.hpp"
#include "tests/bench/planner/random_pipeline.hpp"
#include "tests/unit/model_profiles.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// A measured job on all GPUs of n1, one stage each, on the fastest plan by the known schedules. `tp` GPUs a stage.
struct Case {
  PlanningInput input;
  bool fits = false;

  explicit Case(pipeline::Chance& chance, int tp = 1) {
    const int stages = 2 + chance.below(6), micro_batches = stages * (1 + chance.below(3));
    std::vector<int> gpus;
    for (int gpu = 0; gpu < stages * tp; ++gpu) gpus.push_back(gpu);
    ElasticJob one = job(10, "n1", {0}, stages * tp);
    std::vector<GpuId> order;
    for (const int gpu : gpus) order.push_back({"n1", gpu});
    one.anchor = {{10, "n1", gpus}};
    const int layers = stages * (4 + chance.below(4));
    one.model = {"gpt2", layers, 512, 8, 256, 1000, micro_batches, micro_batches};
    one.model.setting.emplace().schedule = "auto";
    one.parallel.pp = stages;
    one.parallel.dp = 1;
    one.parallel.tp = tp;
    one.parallel.micro_batches = micro_batches;
    one.min_gpus = one.floor_gpus = stages * tp;
    one.plan = uniform_plan(stages, 1, layers, micro_batches, micro_batches, order, tp);
    JobCoefficients known = bench::random_pipeline_job(chance, layers, micro_batches);
    known.tp_degrees = {1, 2};
    known.first.assumed_compute = known.last.assumed_compute = known.assumed_rail = false;
    input = input_of({node("n1", stages * tp)}, {one});
    auto site = std::make_shared<Site>(*neutral_site(input.cluster));
    known.gpu.assign(site->hardware.types.size(), {10, 2, 1, 1, false, false, false, false});
    double most = 0;
    for (const StagePrediction& stage : evaluate_plan(site->hardware, site->topology, known, *one.plan).stages)
      most = std::max(most, stage.memory.peak);
    for (GpuType& type : site->hardware.types)
      type.memory_bytes = (0.5 + chance.unit()) * most / site->hardware.memory_share;
    input.site = site;
    input.coefficients[10] = known;
    auto sketch = sketch_of(*one.plan, *site);
    REQUIRE(sketch);
    const PlanBounds bounds = bounds_of(one, *site);
    Evaluator evaluator({site->hardware, site->topology, known, bounds, forms_of(one)});
    fits = evaluator.balance_sketch(*sketch).feasible();
    if (!fits) return;
    Plan plan = *one.plan;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].layers = sketch->stages[s].layers;
    the_job().plan = with_form(std::move(plan), sketch->form);
    the_job().step_seconds = evaluate_plan(site->hardware, site->topology, known, *the_job().plan).exact_ms / 1000;
  }
  ElasticJob& the_job() { return input.jobs.front(); }
  const ElasticJob& the_job() const { return input.jobs.front(); }
  JobCoefficients& known() { return input.coefficients.begin()->second; }
};

bool same_placement(const Plan& a, const Plan& b) {
  const PipelineForm x = form_of(a), y = form_of(b);
  return x.chunks == y.chunks && x.v_shaped() == y.v_shaped();
}

// The first job for which another placement pays. `accept`: of its decision.
Case placed_badly(int tp = 1, bool plain = false) {
  pipeline::Chance chance(8);
  for (int round = 0; round < 200; ++round) {
    Case one(chance, tp);
    if (!one.fits || (plain && !form_of(*one.the_job().plan).plain())) continue;
    const auto decisions = decide(one.input);
    if (decisions.size() == 1 && !same_placement(decisions[0].plan, *one.the_job().plan)) return one;
  }
  FAIL("no job is placed better by search");
  return Case(chance);
}

// What a launcher reports after the change.
void commit(Case& one, const Decision& decision, double seconds = 0) {
  ElasticJob& job = one.the_job();
  job.plan = decision.plan;
  ++job.generation;
  const Prediction named =
      evaluate_plan(one.input.site->hardware, one.input.site->topology, one.known(), decision.plan);
  job.step_seconds = named.exact_ms / 1000;
  one.input.last_change[job.id] = one.input.now;
  one.input.now += std::max(seconds, 20.0);
}

}  // namespace

TEST_SUITE("replacing") {
  TEST_CASE("a measured job whose chunks lie badly gets the placement that lists reach most with, on its GPUs") {
    pipeline::Chance chance(8);
    int compared = 0, moved = 0;
    for (int round = 0; round < 60; ++round) {
      Case one(chance);
      if (!one.fits) continue;
      ++compared;
      CAPTURE(round);
      const auto decisions = decide(one.input);
      REQUIRE(decisions.size() <= 1);
      const auto again = decide(one.input);
      REQUIRE(again.size() == decisions.size());
      // Or the same placement with other layers and another schedule, as the known schedules would have it.
      if (decisions.empty() || same_placement(decisions[0].plan, *one.the_job().plan)) continue;
      CHECK(again[0].plan == decisions[0].plan);
      CHECK(again[0].reason == decisions[0].reason);
      ++moved;
      const Decision& d = decisions[0];
      const Plan& before = *one.the_job().plan;
      CHECK(d.kind == DecisionKind::migrate);
      CHECK(d.job == 10);
      CHECK(d.acquire.empty());
      CHECK(d.release.empty());
      CHECK(d.plan.ranks() == before.ranks());
      CHECK(d.plan.micro_batches == before.micro_batches);
      CHECK(validate(d.plan, one.the_job().model.layers).empty());
      const Site& site = *one.input.site;
      const PlacementReach now = reach_of(before, site.hardware, site.topology, one.known());
      const PlacementReach next = reach_of(d.plan, site.hardware, site.topology, one.known());
      CHECK(evaluate_plan(site.hardware, site.topology, one.known(), d.plan).feasible);
      CHECK(next.reached_ms() * 1.02 <= now.reached_ms());
      CHECK(next.named_ms <= 1.02 * now.named_ms);
      CHECK(d.predicted_step_seconds == doctest::Approx(next.reached_ms() / 1000));
      CHECK(d.reason.starts_with("a faster plan on the GPUs it has: from "));
      CHECK(d.reason.ends_with(std::string("; ") + kPlacedBySearch));
      REQUIRE(d.candidates.size() == 2);
      CHECK(d.candidates[0].plan == describe(before));
      CHECK(d.candidates[0].predicted_step_seconds == doctest::Approx(now.reached_ms() / 1000));
      CHECK_FALSE(d.candidates[0].rejected_by.empty());
      CHECK(d.candidates[1].plan == describe(d.plan));
      CHECK(d.candidates[1].rejected_by.empty());
    }
    CHECK(compared > 30);
    CHECK(moved > 2);
  }

  TEST_CASE("a job that started on the plan from data sheets goes over to a better placement once it has a profile") {
    ElasticJob one = job(10, "n1", {0, 1, 2, 3}, 4);
    one.model = {"gpt2", 10, 32, 4, 32, 256, 3, 3};
    one.model.setting.emplace().schedule = "auto";
    one.model.setting->precision = "float32";
    one.plan.reset();
    one.parallel.pp = 4;
    one.parallel.dp = one.parallel.tp = 1;
    one.parallel.micro_batches = 3;
    PlanningInput input = input_of({node("n1", 4)}, {one});
    input.site = neutral_site(input.cluster);
    const Site& site = *input.site;
    JobCoefficients truth = sheet_for(one, site);
    ElasticJob& running = input.jobs.front();
    running.plan = first_plan(one, site, truth, RankOrder::planned).plan;
    REQUIRE_FALSE(form_of(*running.plan).v_shaped());
    for (GpuCoefficients& gpu : truth.gpu) gpu.comp *= 1000;  // paced devices
    Profile profile = model_cases::profile_of({site.hardware, site.topology}, truth, *running.plan);
    profile.shape = one.model;
    input.coefficients[10] = calibrate(site.hardware, site.topology, profile).job;
    running.step_seconds =
        evaluate_plan(site.hardware, site.topology, input.coefficients[10], *running.plan).exact_ms / 1000;
    const auto decisions = decide(input);
    REQUIRE(decisions.size() == 1);
    CHECK(decisions[0].kind == DecisionKind::migrate);
    CHECK_FALSE(same_placement(decisions[0].plan, *running.plan));
    CHECK(decisions[0].plan.gpu_count() == 4);
    CHECK(decisions[0].predicted_step_seconds < 0.95 * running.step_seconds);
    CHECK(decisions[0].reason.ends_with(kPlacedBySearch));
  }

  TEST_CASE("a job that runs lists already is told what it gains over them") {
    Case one = placed_badly();
    const Site& site = *one.input.site;
    const PlacementReach now = reach_of(*one.the_job().plan, site.hardware, site.topology, one.known());
    one.the_job().step_seconds = now.reached_ms() / 1000;
    const auto d = decide(one.input).at(0);
    const PlacementReach next = reach_of(d.plan, site.hardware, site.topology, one.known());
    CHECK(d.predicted_step_seconds == doctest::Approx(next.reached_ms() / 1000));
  }

  TEST_CASE("once moved a job stays, however often it is measured again") {
    Case one = placed_badly();
    const Plan first = *one.the_job().plan;
    const auto scheduler = make_suika_scheduler(bold());
    commit(one, scheduler->decide(one.input).at(0));
    pipeline::Chance chance(3);
    for (int profile = 0; profile < 12; ++profile) {
      CHECK(scheduler->decide(one.input).empty());
      one.known().last.compute_layers *= 0.99 + 0.02 * chance.unit();
      one.input.now += 4000;
    }
    CHECK_FALSE(same_placement(*one.the_job().plan, first));
  }

  TEST_CASE("a placement that a job left is not taken again while it has the same GPUs") {
    Case one = placed_badly();
    const Decision d = decide(one.input).at(0);
    const Plan bad = *one.the_job().plan;
    const auto scheduler = make_suika_scheduler(bold());
    one.the_job().plan = d.plan;
    CHECK(scheduler->decide(one.input).empty());
    PlanningInput changing = one.input;  // the daemon leaves a job out while it changes
    changing.jobs.clear();
    changing.now += 10;
    CHECK(scheduler->decide(changing).empty());
    one.the_job().plan = bad;  // e.g. because it is faster, as was measured
    one.input.now += 20;
    for (const Decision& other : scheduler->decide(one.input)) CHECK_FALSE(same_placement(other.plan, d.plan));
    // A scheduler that does not know of it goes there.
    CHECK(same_placement(decide(one.input).at(0).plan, d.plan));
  }

  TEST_CASE("a change that is not made is proposed again after one minute, then two, and not in between") {
    const Case one = placed_badly();
    PlanningInput input = one.input;
    const auto scheduler = make_suika_scheduler(bold());
    std::vector<double> proposed;
    for (int second = 0; second < 500; second += 10) {
      input.now = one.input.now + second;
      if (!scheduler->decide(input).empty()) proposed.push_back(second);
    }
    CHECK(proposed == std::vector<double>{0, 60, 180, 420});
  }

  TEST_CASE("a job is looked at again when its coefficients have changed, after a rest") {
    Case one = placed_badly(1, true);
    const JobCoefficients good = one.known();
    // With so large activations every further chunk costs more than it gains.
    one.known().activ_bytes = 3e10;
    PlanningInput input = one.input;
    const auto scheduler = make_suika_scheduler(bold());
    const auto decided = [&](double after) {
      input.now = one.input.now + after;
      return scheduler->decide(input).size();
    };
    CHECK(decided(0) == 0);
    CHECK(decided(1000) == 0);
    input.coefficients[10] = good;  // the first change counts at once
    CHECK(decided(1001) == 1);
    // Two changes later it rests for a minute, then for two.
    const auto fresh = make_suika_scheduler(bold());
    input.coefficients[10] = one.known();
    const auto found = [&](double after) {
      input.now = one.input.now + after;
      return fresh->decide(input).size();
    };
    CHECK(found(0) == 0);
    input.coefficients[10].activ_bytes *= 1.01;
    CHECK(found(1) == 0);
    input.coefficients[10] = good;
    CHECK(found(60) == 0);
    CHECK(found(61) == 1);
  }

  TEST_CASE("a launcher that reports another plan all the time has its job looked at every ten seconds at most") {
    Case one = placed_badly();
    const auto scheduler = make_suika_scheduler(bold());
    Case other = one;
    std::swap(other.the_job().plan->stages.front().replicas, other.the_job().plan->stages.back().replicas);
    scheduler->decide(other.input);
    one.input.now += 9;
    CHECK(scheduler->decide(one.input).empty());
    one.input.now += 2;
    CHECK(scheduler->decide(one.input).size() == 1);
  }

  TEST_CASE("a change that does not pay is not made") {
    const Case one = placed_badly();
    const Decision d = decide(one.input).at(0);
    const double now = d.candidates[0].predicted_step_seconds, gain = now / d.predicted_step_seconds;
    SchedulerOptions options = bold();
    options.least_gain = 1.01 * gain;
    CHECK(decide(one.input, options).empty());
    options.least_gain = 0.99 * gain;
    CHECK(decide(one.input, options).size() == 1);
    Case slow = one;  // 300 s of training gain less than the pause
    slow.input.redeploy_seconds[10] = 1.05 * 300 * (gain - 1);
    CHECK(decide(slow.input).empty());
    slow.input.redeploy_seconds[10] = 0.5 * 300 * (gain - 1);
    CHECK(decide(slow.input).size() == 1);
    Case large = one;  // its state takes longer than that to move
    auto site = std::make_shared<Site>(*large.input.site);
    for (NodeKind& kind : site->hardware.kinds) kind.dp_bandwidth = 1;
    large.input.site = site;
    CHECK(decide(large.input).empty());
    Case ending = one;
    ending.the_job().total_steps = ending.the_job().step + 1;
    CHECK(decide(ending.input).empty());
    ending.the_job().total_steps = ending.the_job().step + 100'000;
    CHECK(decide(ending.input).size() == 1);
  }

  TEST_CASE("a gain that holds only with what is assumed is none") {
    Case one = placed_badly(1, true);
    const Decision d = decide(one.input).at(0);
    REQUIRE(form_of(d.plan).chunks > 1);
    // Sizes of messages for which the change still pays, and does not where they are twice as large.
    Case doubted = one;
    bool found = false;
    for (double bytes = 1e6; bytes < 1e11 && !found; bytes *= 1.2) {
      one.known().activ_bytes = doubted.known().activ_bytes = bytes;
      doubted.known().boundary_assumed = true;
      const auto measured = decide(one.input), assumed = decide(doubted.input);
      found = !measured.empty() && assumed.empty();
    }
    CHECK(found);
  }

  TEST_CASE("held jobs, and jobs whose plan trials or their users chose, keep it") {
    const Case one = placed_badly();
    Case held = one;
    held.the_job().held = true;
    CHECK(decide(held.input).empty());
    Case tuned = one;
    tuned.input.tuned.insert(10);
    CHECK(decide(tuned.input).empty());
    Case given = one;
    given.the_job().parallel.first = *one.the_job().plan;
    for (const Decision& d : decide(given.input)) CHECK(same_placement(d.plan, *one.the_job().plan));
    Case changed = one;  // a moment ago
    changed.input.last_change[10] = changed.input.now - 1;
    CHECK(decide(changed.input).empty());
    Case unmeasured = one;
    unmeasured.input.coefficients.clear();
    CHECK(decide(unmeasured.input).empty());
  }

  TEST_CASE("jobs that name their schedule, and the policy as printed, stay with it") {
    const Case one = placed_badly();
    Case named = one;
    named.the_job().model.setting->schedule = form_of(*one.the_job().plan).schedule();
    for (const Decision& d : decide(named.input)) CHECK(same_placement(d.plan, *one.the_job().plan));
    SchedulerOptions options = bold();
    options.as_printed = true;
    CHECK(decide(one.input, options).empty());
  }

  TEST_CASE("a bitwise job gets other chunks, and keeps its TP degree") {
    Case one = placed_badly(2);
    one.the_job().parallel.pp = one.the_job().parallel.dp = one.the_job().parallel.tp = 0;
    one.the_job().accuracy = Accuracy::bitwise;
    const auto decisions = decide(one.input);
    REQUIRE(decisions.size() == 1);
    for (const Stage& stage : decisions[0].plan.stages) CHECK(stage.tp == 2);
    CHECK(decisions[0].plan != *one.the_job().plan);
  }

  TEST_CASE("at most two jobs are looked at in a decision, and each gets its turn") {
    const Case one = placed_badly();
    PlanningInput input = one.input;
    input.jobs.clear();
    input.cluster.nodes.clear();
    input.coefficients.clear();
    const int gpus = one.the_job().plan->gpu_count();
    for (int i = 0; i < 5; ++i) {
      const std::string name = "n" + std::to_string(i + 1);
      input.cluster.nodes.push_back(node(name, gpus));
      ElasticJob copy = one.the_job();
      copy.id = static_cast<JobId>(10 + i);
      for (Holding& held : copy.anchor) held = {copy.id, name, held.gpus};
      for (Stage& stage : copy.plan->stages)
        for (Replica& replica : stage.replicas)
          for (GpuId& gpu : replica.gpus) gpu.node = name;
      for (const Holding& held : copy.anchor) hold(input.cluster, held);
      input.coefficients[copy.id] = one.input.coefficients.at(10);
      input.jobs.push_back(std::move(copy));
    }
    auto site = std::make_shared<Site>(*neutral_site(input.cluster));
    for (GpuType& type : site->hardware.types) type.memory_bytes = one.input.site->hardware.types[0].memory_bytes;
    input.site = site;
    const auto scheduler = make_suika_scheduler(bold());
    std::vector<JobId> order;
    std::vector<std::size_t> counts;
    for (int decision = 0; decision < 4; ++decision, input.now += 1) {
      const auto decisions = scheduler->decide(input);
      counts.push_back(decisions.size());
      for (const Decision& d : decisions) order.push_back(d.job);
    }
    CHECK(counts == std::vector<std::size_t>{2, 2, 1, 0});
    CHECK(order == std::vector<JobId>{10, 11, 12, 13, 14});
  }

  TEST_CASE("a plan whose chunks lie in no known way is left alone, and other jobs are not") {
    Case one = placed_badly();
    Plan& plan = *one.the_job().plan;
    plan.chunks.clear();
    const int stages = static_cast<int>(plan.stages.size());
    for (int s = stages - 1; s >= 0; --s) plan.chunks.push_back({s, plan.stages[static_cast<std::size_t>(s)].layers});
    REQUIRE(validate(plan, one.the_job().model.layers).empty());
    std::vector<Decision> decisions;
    CHECK_NOTHROW(decisions = decide(one.input));
    CHECK(decisions.empty());
  }
}
