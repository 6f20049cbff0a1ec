#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/planning_basis.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/core/topology/from_view.hpp"

using namespace espalier;

namespace {

NodeView node(const std::string& name, int gpus, const std::string& type = "h100") {
  NodeView view;
  view.name = name;
  view.gpu_type = type;
  view.gpu_owner.assign(static_cast<std::size_t>(gpus), 0);
  return view;
}

Site site_of(std::vector<NodeView> nodes) {
  ClusterView view;
  view.nodes = std::move(nodes);
  return site_from_view(view, {}).site;
}

ElasticJob job_on(std::vector<Holding> anchor, Accuracy accuracy = Accuracy::relaxed) {
  ElasticJob job;
  job.id = 7;
  job.accuracy = accuracy;
  job.model = {"llama", 16, 2048, 16, 1024, 32000, 64, 8};
  job.max_gpus = 64;
  job.anchor = std::move(anchor);
  return job;
}

FirstPlan plan_for(const ElasticJob& job, const Site& site, RankOrder order = RankOrder::planned) {
  return first_plan(job, site, sheet_for(job, site), order);
}

std::vector<int> first_gpus(int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(i);
  return list;
}

}  // namespace

TEST_CASE("the first plan is valid, starts on the job's first GPU, and beats every uniform plan") {
  for (const int gpus : {1, 2, 3, 4, 6, 8})
    for (const Accuracy accuracy : {Accuracy::bitwise, Accuracy::relaxed}) {
      const Site site = site_of({node("n1", 8), node("n2", 8)});
      const ElasticJob job = job_on({{7, "n2", first_gpus(gpus)}}, accuracy);
      const auto coefficients = sheet_for(job, site);
      const FirstPlan first = plan_for(job, site);
      CAPTURE(describe(first.plan));
      CHECK(validate(first.plan, 16).empty());
      CHECK(first.plan.ranks().front() == GpuId{"n2", 0});
      CHECK(first.remark == "");
      REQUIRE_FALSE(first.candidates.empty());
      CHECK(first.candidates.front().plan == describe(first.plan));
      CHECK(first.candidates.front().rejected_by == "");
      const double chosen = evaluate_plan(site.hardware, site.topology, coefficients, first.plan).exact_ms;
      for (int tp = 1; tp <= gpus; tp *= 2)
        for (int pp = 1; pp * tp <= gpus; ++pp) {
          if (gpus % (pp * tp) != 0 || (accuracy == Accuracy::bitwise && tp > 1)) continue;
          for (const int count : {1, 2, 4, 8, 16, 32, 64}) {
            const int dp = gpus / pp / tp;
            if (64 / count < dp) continue;
            std::vector<GpuId> ids;
            for (int i = 0; i < gpus; ++i) ids.push_back({"n2", i});
            const Plan plan = uniform_plan(pp, dp, 16, 64, count, ids, tp);
            const auto other = evaluate_plan(site.hardware, site.topology, coefficients, plan);
            if (other.feasible) CHECK(chosen <= other.exact_ms * (1 + 1e-9));
          }
        }
    }
}

TEST_CASE("integer gradients count: a model of 7 billion parameters needs four stages under bitwise, and two relaxed") {
  Site site = site_of({node("n1", 4)});
  for (auto& type : site.hardware.types) type.memory_bytes = 80e9;
  ElasticJob job = job_on({{7, "n1", first_gpus(4)}}, Accuracy::relaxed);
  job.model = {"llama", 32, 4096, 32, 512, 32000, 8, 8};
  job.parallel.tp_degrees = {1};
  const auto fits = [&](int pp) {
    const Plan plan = uniform_plan(pp, 4 / pp, 32, 8, 4, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}}, 1);
    return evaluate_plan(site.hardware, site.topology, sheet_for(job, site), plan).feasible;
  };
  CHECK(fits(2));
  job.accuracy = Accuracy::bitwise;
  CHECK_FALSE(fits(2));
  CHECK(fits(4));
  CHECK(plan_for(job, site).plan.stages.size() == 4);
}

TEST_CASE("of two schedules that take equally long the simpler one is the first plan, whatever a sum's last bits") {
  Site site = site_of({node("n1", 4, "")});
  for (GpuType& type : site.hardware.types) type.tflops *= 1e3, type.memory_bandwidth *= 1e3;
  ElasticJob job = job_on({{7, "n1", first_gpus(2)}}, Accuracy::bitwise);
  job.model = {"gpt2", 8, 32, 4, 32, 256, 8, 0};
  job.model.setting = TrainingSetting{"espalier-train 0.1.0", "", "float32", "auto"};
  job.max_gpus = 2;
  job.parallel.pp = 2;
  job.parallel.micro_batches = 8;
  for (const Accuracy accuracy : {Accuracy::bitwise, Accuracy::relaxed}) {  // gradients of 8 and 4 bytes
    job.accuracy = accuracy;
    const FirstPlan first = plan_for(job, site);
    CHECK(first.plan.schedule == with_form(first.plan, {}).schedule);
    REQUIRE(first.candidates.size() > 1);
    CHECK(first.candidates[1].predicted_step_seconds == first.candidates[0].predicted_step_seconds);
  }
}

TEST_CASE("more GPUs than layers is an ordinary case") {
  const Site site = site_of({node("n1", 8), node("n2", 8)});
  for (const RankOrder order : {RankOrder::planned, RankOrder::given}) {
    ElasticJob job = job_on({{7, "n1", first_gpus(8)}, {7, "n2", first_gpus(8)}}, Accuracy::bitwise);
    job.model.layers = 2;
    const FirstPlan first = plan_for(job, site, order);
    CHECK(validate(first.plan, 2).empty());
    CHECK(first.plan.gpu_count() == 16);
  }
}

TEST_CASE("ranks that run already keep their GPUs in their order") {
  const Site site = site_of({node("n1", 4), node("n2", 4)});
  const ElasticJob job = job_on({{7, "n2", {3, 1}}, {7, "n1", {0, 2}}});
  const FirstPlan first = plan_for(job, site, RankOrder::given);
  CHECK(first.plan.ranks() == std::vector<GpuId>{{"n2", 3}, {"n2", 1}, {"n1", 0}, {"n1", 2}});
}

TEST_CASE("the user's degrees hold, and bitwise keeps one TP degree") {
  const Site site = site_of({node("n1", 8)});
  ElasticJob job = job_on({{7, "n1", first_gpus(8)}});
  job.parallel.pp = 2;
  job.parallel.tp = 2;
  job.parallel.micro_batches = 16;
  const Plan plan = plan_for(job, site).plan;
  CHECK(plan.stages.size() == 2);
  CHECK(plan.micro_batches == 16);
  for (const Stage& stage : plan.stages) CHECK(stage.tp == 2);
  job.parallel = {};
  job.parallel.tp_degrees = {4};
  for (const Stage& stage : plan_for(job, site).plan.stages) CHECK(stage.tp == 4);
  job.parallel = {};
  job.accuracy = Accuracy::bitwise;
  for (const Stage& stage : plan_for(job, site).plan.stages) CHECK(stage.tp == 1);
  job.parallel.tp = 2;
  for (const Stage& stage : plan_for(job, site).plan.stages) CHECK(stage.tp == 2);
}

TEST_CASE("every first plan has the user's chunks") {
  const Site site = site_of({node("n1", 8)});
  ElasticJob job = job_on({{7, "n1", first_gpus(8)}});
  job.parallel.pp = 4;
  job.parallel.chunks = 2;
  job.parallel.v_shaped = true;
  const Plan plan = plan_for(job, site).plan;
  CHECK(validate(plan, job.model.layers).empty());
  REQUIRE(plan.chunks.size() == 8);
  for (std::size_t c = 0; c < 8; ++c) CHECK(plan.chunks[c].stage == static_cast<int>(c < 4 ? c : 7 - c));
}

TEST_CASE("degrees that no plan can keep are refused with the figures") {
  const Site site = site_of({node("n1", 8)});
  ElasticJob job = job_on({{7, "n1", first_gpus(8)}});
  job.parallel.pp = 16;
  CHECK_THROWS_WITH_AS(plan_for(job, site), doctest::Contains("pp=16 dp=0 tp=0"), Error);
}

TEST_CASE("micro-batches that do not divide the batch, and a batch of nothing, are refused and do no harm") {
  const Site site = site_of({node("n1", 8)});
  ElasticJob job = job_on({{7, "n1", first_gpus(8)}});
  job.parallel.micro_batches = 7;
  CHECK_THROWS_WITH_AS(plan_for(job, site), doctest::Contains("micro_batches=7"), Error);
  job.model.global_batch = 0;
  CHECK_THROWS_AS(plan_for(job, site), Error);
  job.parallel.micro_batches = 0;
  CHECK_THROWS_AS(plan_for(job, site), Error);
}

TEST_CASE("a model whose state fits nowhere is refused with what it needs and what there is") {
  const Site site = site_of({node("n1", 2, "t4")});
  ElasticJob job = job_on({{7, "n1", {0, 1}}});
  job.model.hidden = 8192;
  CHECK_THROWS_WITH_AS(plan_for(job, site), doctest::Contains("GB on a GPU that has 14.40 GB"), Error);
}

// The number of plans that were weighed before a job was refused.
std::int64_t weighed_before_refusal(const ElasticJob& job, const Site& site) {
  try {
    plan_for(job, site);
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    const auto at = text.rfind('(');
    REQUIRE(text.find(" plans were weighed)") != std::string::npos);
    return std::stoll(text.substr(at + 1));
  }
  FAIL("it was not refused");
  return 0;
}

TEST_CASE("a refusal on 2,048 GPUs weighs few plans") {
  std::vector<NodeView> nodes;
  std::vector<Holding> anchor;
  for (int i = 0; i < 256; ++i) {
    nodes.push_back(node("n" + std::to_string(i), 8, "t4"));
    anchor.push_back({7, nodes.back().name, first_gpus(8)});
  }
  const Site site = site_of(std::move(nodes));
  ElasticJob job = job_on(std::move(anchor));
  job.model = {"llama", 96, 65536, 64, 1024, 32000, 2048, 8};
  job.max_gpus = 2048;
  CHECK(weighed_before_refusal(job, site) < 2000);
}

TEST_CASE("GPUs with less memory behind the others do not hinder a plan on the others") {
  const Site site = site_of({node("n1", 2), node("n2", 2, "t4")});
  ElasticJob job = job_on({{7, "n1", {0, 1}}, {7, "n2", {0, 1}}});
  job.model.layers = 2;  // of 11.6 GB each with their optimizer's state
  job.model.hidden = 8192;
  const FirstPlan first = plan_for(job, site);
  CHECK(first.remark.empty());
  CHECK(validate(first.plan, 2).empty());
}

TEST_CASE("where by estimate only activations do not fit, the leanest plan is chosen with a remark") {
  const Site site = site_of({node("n1", 2, "t4")});
  ElasticJob job = job_on({{7, "n1", {0, 1}}});
  job.model.layers = 4;
  job.model.hidden = 1024;
  job.model.heads = 64;
  job.model.sequence = 16384;
  job.model.keeps_scores = true;
  const FirstPlan first = plan_for(job, site);
  CHECK(first.remark.find("activations do not fit") != std::string::npos);
  CHECK(validate(first.plan, 4).empty());
}

// Three replicas of a batch of four samples have shares of 2, 1 and 1; two have shares of 1, and need less memory.
TEST_CASE("where the most replicas do not divide the batch, fewer with smaller shares are looked at too") {
  Site site = site_of({node("n1", 3)});
  ElasticJob job = job_on({{7, "n1", {0, 1, 2}}});
  job.model.layers = 1;
  job.model.global_batch = 4;
  job.parallel.pp = 1;
  job.parallel.tp_degrees = {1};
  const JobCoefficients coefficients = sheet_for(job, site);
  const auto needs = [&](int dp, int micro_batches) {
    std::vector<GpuId> gpus;
    for (int i = 0; i < dp; ++i) gpus.push_back({"n1", i});
    const Plan plan = uniform_plan(1, dp, 1, 4, micro_batches, gpus);
    return evaluate_plan(site.hardware, site.topology, coefficients, plan).stages.front().memory.peak;
  };
  REQUIRE(needs(2, 2) < needs(3, 1));
  REQUIRE(needs(2, 2) <= needs(1, 4));
  for (GpuType& type : site.hardware.types)
    type.memory_bytes = (needs(2, 2) + needs(3, 1)) / 2 / site.hardware.memory_share;
  const FirstPlan first = first_plan(job, site, coefficients, RankOrder::planned);
  CHECK(first.remark.empty());
  CHECK(evaluate_plan(site.hardware, site.topology, coefficients, first.plan).feasible);
}

TEST_CASE("the user's own plan is laid on the job's GPUs, or refused with the reason") {
  const Site site = site_of({node("n1", 4), node("n2", 4)});
  ElasticJob job = job_on({{7, "n1", first_gpus(4)}, {7, "n2", first_gpus(4)}});
  const auto on = [](int count) {
    std::vector<GpuId> gpus;
    for (int i = 0; i < count; ++i) gpus.push_back({"anywhere", i});
    return gpus;
  };
  job.parallel.first = uniform_plan(2, 2, 16, 64, 8, on(8), 2);
  const Plan plan = plan_for(job, site).plan;
  CHECK(plan.stages.size() == 2);
  CHECK(plan.ranks()[4] == GpuId{"n2", 0});
  job.parallel.first = uniform_plan(1, 12, 16, 96, 8, on(12));
  CHECK_THROWS_WITH_AS(plan_for(job, site), doctest::Contains("global_batch is 96"), Error);
  job.parallel.first = uniform_plan(1, 16, 16, 64, 4, on(16));
  CHECK_THROWS_WITH_AS(plan_for(job, site), doctest::Contains("for 16 GPUs, the job has 8"), Error);
  job.parallel.first = uniform_plan(1, 1, 16, 64, 8, on(8), 8);
  CHECK_THROWS_WITH_AS(plan_for(job, site), doctest::Contains("on two nodes"), Error);
}

TEST_CASE("what the planner knows survives the way to the launcher, with only the nodes it names") {
  const Site site = site_of({node("n1", 4), node("n2", 4, "t4"), node("n3", 2, "a100")});
  ElasticJob job = job_on({{7, "n1", first_gpus(4)}});
  const PlanningBasis known = basis_from(basis_json(site, {"n1", "n3", "n9"}, sheet_for(job, site)));
  CHECK(known.site.topology.find("n2") == -1);
  REQUIRE(known.site.topology.find("n3") >= 0);
  const auto memory = [](const Site& of, const std::string& name) {
    const int at = of.topology.find(name);
    return of.hardware.types[static_cast<std::size_t>(of.topology.gpu_types(at).front())].memory_bytes;
  };
  CHECK(memory(known.site, "n1") == memory(site, "n1"));
  CHECK(memory(known.site, "n3") == memory(site, "n3"));
  REQUIRE(known.coefficients);
  const auto on_own = [&](const Site& of, const JobCoefficients& by) {
    std::vector<GpuId> gpus;
    for (int i = 0; i < 4; ++i) gpus.push_back({"n1", i});
    return evaluate_plan(of.hardware, of.topology, by, uniform_plan(2, 2, 16, 64, 8, gpus)).exact_ms;
  };
  CHECK(on_own(known.site, *known.coefficients) == doctest::Approx(on_own(site, sheet_for(job, site))));
  CHECK_FALSE(basis_from(basis_json(site, {"n1"}, std::nullopt)).coefficients);
}

TEST_CASE("knowledge that cannot be is refused") {
  const Site site = site_of({node("n1", 4)});
  const Json good = basis_json(site, {"n1"}, std::nullopt);
  const auto refused = [&](const char* pointer, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    CAPTURE(pointer);
    CHECK_THROWS_AS(basis_from(bad), Error);
  };
  refused("/nodes/0/kind", 3);
  refused("/nodes/0/kind", -1);
  refused("/nodes/0/types/0", 9);
  refused("/types/0/memory_bytes", 0);
  refused("/types/0/tflops", -1);
  refused("/kinds/0/dp_bandwidth", 0);
  refused("/kinds/0/nics", -1);
  refused("/v0", nullptr);
  refused("/nodes", 1);
  refused("/unknown", 1);
  CHECK_NOTHROW(basis_from(good));
}

TEST_CASE("a shrink knows the GPUs' memory: state that one GPU cannot hold stays on two") {
  const Site site = site_of({node("n1", 4, "t4")});
  ElasticJob job = job_on({{7, "n1", first_gpus(2)}});
  job.model = {"llama", 8, 2048, 16, 256, 1000, 16, 8};  // 8 layers, some 0.8 GB of state each: 6.5 GB
  job.model.layers = 24;                                 // 19 GB: more than a T4 has
  std::vector<GpuId> gpus;
  for (int i = 0; i < 4; ++i) gpus.push_back({"n1", i});
  job.plan = uniform_plan(4, 1, 24, 16, 16, gpus);
  const PlanningBasis known = basis_from(basis_json(site, {"n1"}, sheet_for(job, site)));
  const auto plan = plan_on_subset(job, {{"n1", 0}, {"n1", 1}}, &known);
  REQUIRE(plan);
  CHECK(plan->stages.size() == 2);  // two replicas of all layers would not fit
}

TEST_CASE("the user's pp gives way when no plan on fewer GPUs can keep it") {
  ElasticJob job = job_on({{7, "n1", first_gpus(2)}});
  std::vector<GpuId> gpus;
  for (int i = 0; i < 4; ++i) gpus.push_back({"n1", i});
  job.plan = uniform_plan(4, 1, 16, 64, 8, gpus);
  job.parallel.pp = 4;
  const auto plan = plan_on_subset(job, {{"n1", 0}, {"n1", 1}});
  REQUIRE(plan);
  CHECK(plan->gpu_count() == 2);
}
