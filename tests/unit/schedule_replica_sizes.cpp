// Programs whose replicas may have several sizes: their first plan, what is measured and assumed of each size, and what
// they run on after they lost GPUs.
#include <doctest/doctest.h>

#include <cmath>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/error.hpp"
#include "planner/core/flat_profile.hpp"
#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/coefficient_window.hpp"
#include "planner/core/model/degree_factor.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/wire/capabilities.hpp"
#include "tests/unit/data_parallel_cases.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Coefficients of a job of `units` that was measured on 4 GPUs in replicas of `unit`, `compute_ms` for 24 samples by as
// many GPUs as a replica has.
JobCoefficients measured_at(const std::vector<int>& units, int unit, double compute_ms) {
  const Site site = two_nodes_of_8();
  const ElasticJob job = data_job(4, 24, units);
  const Plan plan = first_of(data_job(4, 24, {unit}));
  const std::size_t replicas = plan.stages[0].replicas.size();
  Json json = {{"step", 25},
               {"steps", 20},
               {"compute_ms", std::vector<double>(replicas, compute_ms / static_cast<double>(replicas))},
               {"rest_ms", 0.001},
               {"gradient_bytes", 4e3},
               {"weight_bytes", 4e3},
               {"state_bytes", 12e3},
               {"peak_bytes", 0},
               {"spread", 0.01}};
  if (replicas > 1) json["sync_ms"] = 0;
  return calibrate(site.hardware, site.topology, profile_of(json.get<FlatProfile>(), plan, job.model)).job;
}

double ms(const JobCoefficients& job, int gpus, int unit) {
  const Site site = two_nodes_of_8();
  return evaluate_plan(site.hardware, site.topology, job, first_of(data_job(gpus, 24, {unit}))).exact_ms;
}

// The job runs in replicas of `unit` on the first 4 GPUs of a node with so many, and was measured there.
PlanningInput beside(int idle, const std::vector<int>& units, int unit) {
  ElasticJob job = data_job(4, 24, units);
  job.plan = first_of(data_job(4, 24, {unit}));
  job.phase = JobPhase::running;
  job.step_seconds = 12;
  PlanningInput input = input_of({node("n1", 4 + idle)}, {job});
  let_jobs_reach(input);
  input.coefficients[7] = measured_at(units, unit, unit * 12000);
  return input;
}

wire::WorkerHello hello_with(const Json& capabilities) {
  Json body = {{"generation", 0}, {"rank", 0}, {"node", "n1"}, {"pid", 5}, {"total_steps", 9}, {"handoff", "adopt"}};
  body["capabilities"] = capabilities;
  body["capabilities"]["parallel"] = "data";
  body["capabilities"]["global_batch"] = 24;
  return wire::read_hello({"hello", body});
}

}  // namespace

TEST_CASE("of several replica sizes a program starts with the first of its list that its GPUs suit") {
  const auto unit = [](int gpus, const std::vector<int>& units, int batch = 24) {
    const Plan plan = first_of(data_job(gpus, batch, units));
    CHECK(plan.gpu_count() == gpus);
    return plan.stages[0].tp;
  };
  CHECK(unit(8, {4, 2, 1}) == 4);
  CHECK(unit(6, {4, 2, 1}) == 2);
  CHECK(unit(5, {4, 2, 1}) == 1);
  CHECK(unit(8, {1, 2, 4}) == 1);
  CHECK(unit(8, {2, 4}, 2) == 4);  // two samples cannot feed four replicas
  CHECK_THROWS_WITH_AS(
      first_of(data_job(5, 24, {4, 2})),
      "no plan on 5 GPU(s): the program takes GPUs in groups of 4 or 2; ask Slurm for a multiple of that", Error);
  CHECK_THROWS_WITH_AS(first_of(data_job(8, 1, {2, 4})),
                       "no plan on 8 GPU(s): the program's global batch is 1 samples, and each replica needs one; ask "
                       "Slurm for fewer GPUs or make the global batch larger",
                       Error);
}

TEST_CASE(
    "a size that was not measured is taken to be slower than a measured smaller one, and nearly as fast as a larger "
    "one") {
  const JobCoefficients job = measured_at({1, 2, 4}, 2, 240);
  CHECK(ms(job, 4, 2) == doctest::Approx(120).epsilon(0.01));
  CHECK(ms(job, 4, 1) == doctest::Approx(1.01 * 120).epsilon(0.01));
  CHECK(ms(job, 4, 4) == doctest::Approx(1.25 * 120).epsilon(0.01));
  const JobCoefficients worst = worst_of_assumed(job);
  CHECK(ms(worst, 4, 2) == doctest::Approx(120).epsilon(0.01));
  CHECK(ms(worst, 4, 1) == doctest::Approx(1.01 * 120).epsilon(0.01));
  CHECK(ms(worst, 4, 4) == doctest::Approx(1.5 * 120).epsilon(0.01));
  CHECK(degree_is_measured(job, 2));
  CHECK_FALSE(degree_is_measured(job, 4));
}

TEST_CASE("a size between two that were measured lies between them") {
  JobCoefficients job = measured_at({1, 2, 4, 8}, 2, 240);
  job.degree_factors = {{2, 1}, {8, 1.4}};
  CHECK(degree_factor(job, 4) == doctest::Approx(1.2));
  CHECK(degree_factor(job, 1) == doctest::Approx(1.01));
  CHECK(degree_factor(job, 16) == doctest::Approx(1.25 * 1.4));
  count_unmeasured_degrees_as_worst(job);
  CHECK(degree_factor(job, 4) == doctest::Approx(1.2 * 1.2));
  CHECK(degree_factor(job, 1) == doctest::Approx(1.01));
}

TEST_CASE("each size that ran is predicted as it was measured, also after others ran") {
  const JobCoefficients one = measured_at({1, 2, 4}, 1, 480), two = measured_at({1, 2, 4}, 2, 400),
                        four = measured_at({1, 2, 4}, 4, 100);
  CoefficientWindow window;
  for (const JobCoefficients& job : {one, two, four}) {
    window.start_generation();
    window.add_told(job, true);
  }
  const JobCoefficients all = window.coefficients().value();
  CHECK(ms(all, 4, 1) == doctest::Approx(120).epsilon(0.01));
  CHECK(ms(all, 4, 2) == doctest::Approx(200).epsilon(0.01));
  CHECK(ms(all, 4, 4) == doctest::Approx(100).epsilon(0.01));
  // Another job like it measures one size anew: half of the difference counts.
  const JobCoefficients blended = blend(all, measured_at({1, 2, 4}, 2, 200), 0.5);
  CHECK(ms(blended, 4, 1) == doctest::Approx(120).epsilon(0.01));
  CHECK(ms(blended, 4, 2) == doctest::Approx(150).epsilon(0.01));
  CHECK(ms(blended, 4, 4) == doctest::Approx(100).epsilon(0.01));
  // A size that is new to what was known is taken as it was measured.
  const JobCoefficients added = blend(one, two, 0.1);
  CHECK(ms(added, 4, 1) == doctest::Approx(120).epsilon(0.01));
  CHECK(ms(added, 4, 2) == doctest::Approx(200).epsilon(0.01));

  const Site site = two_nodes_of_8();
  const Json json = coefficients_json(all, site.hardware);
  CHECK(coefficients_from(json, site.hardware) == all);
  for (const auto& [table, words] : {std::pair<Json, const char*>{{{"x", 1}}, "\"x\" is no number of GPUs"},
                                     {{{"0", 1}}, "\"0\" is no number of GPUs"},
                                     {{{"2", -1}}, ".2: must be finite and above zero"},
                                     {{{"2", "1"}}, ".2: must be finite and above zero"},
                                     {3, ": must be a JSON object"}}) {
    Json broken = json;
    broken["degree_factors"] = table;
    CHECK_THROWS_WITH_AS(coefficients_from(broken, site.hardware), doctest::Contains(words), Error);
  }
}

TEST_CASE("figures of a user that differ beyond measure do not overflow in a plan's time") {
  CoefficientWindow window;
  for (const auto& [unit, compute_ms] : {std::pair(1, 1e300), {2, 1e-300}, {4, 1e300}}) {
    window.start_generation();
    window.add_told(measured_at({1, 2, 4}, unit, compute_ms), true);
    const JobCoefficients all = window.coefficients().value();
    for (const DegreeFactor& one : all.degree_factors) {
      CHECK(one.factor >= 1e-6);
      CHECK(one.factor <= 1e6);
    }
    CHECK(std::isfinite(ms(all, 4, 1)));
  }
}

TEST_CASE("a shape of a known family that names replica sizes has no factors either") {
  ModelShape shape = data_job(4, 24, {1, 2}).model;
  CHECK(has_several_units(shape));
  shape.family = "gpt2";
  CHECK_FALSE(has_several_units(shape));
}

TEST_CASE("models of known families have no such factors") {
  const Site site = two_nodes_of_8();
  CHECK(measured_at({2}, 2, 240).degree_factors.empty());
  CHECK_FALSE(coefficients_json(measured_at({2}, 2, 240), site.hardware).contains("degree_factors"));
}

TEST_CASE("after a loss of GPUs a job goes on in replicas of a size that its program can run, or not at all") {
  const auto after = [](int gpus, const std::vector<int>& units, std::vector<int> left) -> std::optional<Plan> {
    ElasticJob job = data_job(gpus, 24, units);
    job.plan = first_of(job);
    std::vector<GpuId> kept;
    for (const int gpu : left) kept.push_back({"n1", gpu});
    return plan_on_subset(job, kept, nullptr);
  };
  const auto same = after(8, {4, 2}, {0, 1, 2, 3});
  REQUIRE(same);
  CHECK(same->stages[0].tp == 4);
  const auto smaller = after(4, {4, 2}, {0, 1});
  REQUIRE(smaller);
  CHECK(smaller->stages[0].tp == 2);
  CHECK(smaller->gpu_count() == 2);
  const auto most = after(8, {4, 2}, {0, 1, 2, 3, 4, 5});
  REQUIRE(most);
  CHECK(most->gpu_count() == 6);
  CHECK(most->stages[0].tp == 2);
  CHECK_FALSE(after(4, {4, 2}, {0}));
  CHECK_FALSE(after(4, {4}, {0, 1}));
}

TEST_CASE("a job grows onto GPUs that fill no replica of its present size, in replicas of a smaller one") {
  const auto grown = decide(beside(2, {4, 2}, 4), bold());
  REQUIRE(grown.size() == 1);
  CHECK(grown[0].kind == DecisionKind::grow);
  CHECK(grown[0].plan.gpu_count() == 6);
  CHECK(grown[0].plan.stages[0].tp == 2);
  CHECK(decide(beside(2, {4}, 4), bold()).empty());
  const auto same = decide(beside(4, {4, 2}, 4), bold());
  REQUIRE(same.size() == 1);
  CHECK(same[0].plan.stages[0].tp == 4);  // the size that was measured, where it fits
  CHECK(same[0].plan.stages[0].replicas.size() == 2);
}

TEST_CASE("a growth into larger replicas that nobody measured must hold at the end of their range") {
  // One sample a step: only a larger replica can use more GPUs.
  const auto grown = [](int idle, int larger) {
    PlanningInput input = beside(idle, {4, larger}, 4);
    input.jobs[0].model.global_batch = input.jobs[0].plan->global_batch = 1;
    input.jobs[0].plan->stages[0].replicas[0].share = 1;
    input.coefficients[7].global_batch = 1;
    count_as_measured(input.coefficients[7]);  // all but the other size
    return decide(input, bold());
  };
  const auto twice = grown(4, 8);  // 2 / 1.5 times as fast at the least
  REQUIRE(twice.size() == 1);
  CHECK(twice[0].plan.stages[0].tp == 8);
  CHECK(twice[0].reason.find("replicas_of.8") != std::string::npos);
  CHECK(grown(2, 6).empty());  // 1.5 / 1.25 is expected; 1.5 / 1.5 is no gain
}

TEST_CASE("two replicas of one GPU become one of four where the batch feeds no more than two") {
  for (const auto& units : {std::vector{1, 4}, std::vector{1, 2, 4}, std::vector{1, 2}}) {
    CAPTURE(units.size());
    ElasticJob job = data_job(2, 2, units);
    job.plan = first_of(job);
    job.phase = JobPhase::running;
    job.step_seconds = 12;
    PlanningInput input = input_of({node("n1", 4)}, {job});
    let_jobs_reach(input);
    JobCoefficients known = measured_at(units, 1, 24000);
    known.global_batch = 2;
    for (GpuCoefficients& gpu : known.gpu) gpu.comp *= 12;  // as long for 2 samples as for 24
    input.coefficients[7] = known;
    const auto scheduler = make_suika_scheduler(bold());
    const auto grown = scheduler->decide(input);
    for (const auto& one : scheduler->weighed()) MESSAGE(one.verdict);
    REQUIRE(grown.size() == 1);
    CHECK(grown[0].plan.gpu_count() == 4);
  }
}

TEST_CASE("hello names the replica sizes, or one") {
  CHECK(hello_with({{"unit", 2}}).can.units == std::vector{2});
  const wire::WorkerHello several = hello_with({{"unit", 4}, {"units", {1, 2, 4}}});
  CHECK(several.can.units == std::vector{4, 1, 2});
  CHECK(several.hello.parallel.tp == 0);
  CHECK(several.hello.parallel.tp_degrees == std::vector{4, 1, 2});
  CHECK(several.hello.model.units == std::vector{1, 2, 4});
  CHECK(Json(several.hello.model).get<ModelShape>() == several.hello.model);
  for (const auto& [units, words] :
       {std::pair<Json, const char*>{Json::array(), "hello.capabilities.units: their number: must be between 1 and 16"},
        {{1, 2}, "hello.capabilities.units: must hold unit"},
        {{4, 4}, "hello.capabilities.units: names a number twice"},
        {{4, 0}, "hello.capabilities.units: each: must be between 1 and 1024"},
        {{4, 1025}, "hello.capabilities.units: each: must be between 1 and 1024"},
        {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
         "hello.capabilities.units: their number: must be between 1 and 16"}})
    CHECK_THROWS_WITH_AS(hello_with({{"unit", 4}, {"units", units}}), words, Error);
}
