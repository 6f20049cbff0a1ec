// Which stages of which plans are profiled for a job that waits.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/stages_to_profile.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

Site two_types() {
  return site_from_view(ClusterView{{node("n1", 4, "leaf1", "h100"), node("n2", 2, "leaf1", "a100")}, {}, {}}, {}).site;
}

ElasticJob waiting(int gpus, int most) {
  ElasticJob one = job(10, "n1", {0});
  one.plan.reset();
  one.anchor.clear();
  one.parallel = {};
  one.phase = JobPhase::launching;
  one.min_gpus = gpus;
  one.max_gpus = most;
  return one;
}

std::vector<PlanToProfile> chosen(const ElasticJob& job, const std::string& type, std::size_t most = 8) {
  const Site site = two_types();
  return plans_to_profile(job, site, sheet_for(job, site), type, most);
}

std::size_t stages_in(const std::vector<PlanToProfile>& plans) {
  std::size_t sum = 0;
  for (const PlanToProfile& plan : plans) sum += plan.stages.size();
  return sum;
}

}  // namespace

TEST_CASE(
    "stages that do the same on a GPU are measured once: the model's ends, the degree and the share tell them apart") {
  const std::vector<GpuId> gpus{{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}};
  CHECK(distinct_stages(uniform_plan(4, 1, 8, 4, 4, gpus), 8) == std::vector<StageToProfile>{{0, 0}, {3, 0}, {1, 0}});
  CHECK(distinct_stages(uniform_plan(1, 4, 8, 4, 1, gpus), 8) == std::vector<StageToProfile>{{0, 0}});
  Plan uneven{8, 1, {{4, 1, {{3, {gpus[0]}}, {5, {gpus[1]}}}}, {4, 1, {{4, {gpus[2]}}, {4, {gpus[3]}}}}}};
  CHECK(distinct_stages(uneven, 8) == std::vector<StageToProfile>{{0, 1}, {1, 0}});  // the largest share
  CHECK(distinct_stages(uniform_plan(4, 1, 8, 4, 4, gpus), 2) == std::vector<StageToProfile>{{0, 0}, {3, 0}});
}

TEST_CASE("a stage that holds both ends of the model is one of its kind") {
  const std::vector<GpuId> gpus{{"n1", 0}, {"n1", 1}};
  Plan folded = uniform_plan(2, 1, 8, 4, 4, gpus);
  folded.chunks = {{0, 2}, {1, 2}, {1, 2}, {0, 2}};
  CHECK(distinct_stages(folded, 8) == std::vector<StageToProfile>{{0, 0}, {1, 0}});
}

TEST_CASE("plans are on GPUs of one type: on the job's own number, on its most, and in between") {
  const auto plans = chosen(waiting(1, 4), "h100");
  REQUIRE(plans.size() == 3);
  CHECK(plans[0].plan.gpu_count() == 1);
  CHECK(plans[1].plan.gpu_count() == 4);
  CHECK(plans[2].plan.gpu_count() == 2);
  for (const PlanToProfile& one : plans) {
    CHECK(validate(one.plan, 8).empty());
    CHECK_FALSE(one.stages.empty());
    for (const GpuId& gpu : one.plan.ranks()) CHECK(gpu.node == "n1");
  }
  CHECK(stages_in(plans) <= 8);
}

TEST_CASE("where a type has fewer GPUs than the job asks for, its plans have them all") {
  const auto plans = chosen(waiting(4, 8), "a100");
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].plan.gpu_count() == 2);
  CHECK(plans[0].plan.ranks().front().node == "n2");
}

TEST_CASE("never more stages than allowed, and the same ones for the same question") {
  for (std::size_t most = 0; most < 9; ++most) CHECK(stages_in(chosen(waiting(1, 4), "h100", most)) <= most);
  const auto one = chosen(waiting(2, 4), "h100"), other = chosen(waiting(2, 4), "h100");
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i].plan == other[i].plan);
}

TEST_CASE("a type that the site does not have is an error; a model that fits nowhere has no plan") {
  CHECK_THROWS_WITH_AS(chosen(waiting(1, 4), "v100"), "profiling: there are no GPUs of type v100", Error);
  ElasticJob large = waiting(1, 4);
  large.model.hidden = 1 << 20;
  CHECK(chosen(large, "h100").empty());
}

TEST_CASE("a plan's form has types in place of GPUs, and equal neighbours once") {
  const Site site = two_types();
  const std::vector<GpuId> gpus{{"n1", 0}, {"n1", 1}, {"n2", 0}};
  const Plan plan{8, 2, {{5, 1, {{2, {gpus[0]}}, {2, {gpus[1]}}}}, {3, 1, {{4, {gpus[2]}}}}}};
  CHECK(plan_form(plan, site) == "2 micro-batches | 5 layers tp1 2@h100 x2 | 3 layers tp1 4@a100");
  Plan elsewhere = plan;
  elsewhere.stages[0].replicas[0].gpus = {{"n1", 3}};
  CHECK(plan_form(elsewhere, site) == plan_form(plan, site));
  elsewhere.stages[0].layers = 6;
  CHECK(plan_form(elsewhere, site) != plan_form(plan, site));
}

TEST_CASE("a long form is cut, and its checksum still tells it apart") {
  Plan plan{4000, 1, {}};
  for (int i = 0; i < 100; ++i) plan.stages.push_back({i + 1, 1, {{4000, {{"n1", 0}}}}});
  const Site site = two_types();
  const std::string form = plan_form(plan, site);
  CHECK(form.size() <= 400);
  plan.stages.back().layers = 7;
  CHECK(plan_form(plan, site) != form);
}
