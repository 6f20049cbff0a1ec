#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/plan.hpp"

using namespace espalier;

namespace {

std::vector<GpuId> gpus(int count) {
  std::vector<GpuId> list;
  for (int i = 0; i < count; ++i) list.push_back({"n" + std::to_string(i / 4 + 1), i % 4});
  return list;
}

Plan two_by_two() { return uniform_plan(2, 2, 5, 16, 4, gpus(4)); }

bool breaks(const Plan& plan, const std::string& word, int layers = 0) {
  for (const std::string& sentence : validate(plan, layers))
    if (sentence.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a uniform plan is valid, gives remainders to the first, and lists ranks stage by stage") {
  const Plan plan = two_by_two();
  CHECK(validate(plan, 5).empty());
  CHECK(plan.stages[0].layers == 3);
  CHECK(plan.stages[1].layers == 2);
  CHECK(plan.micro_batch() == 4);
  CHECK(plan.ranks() == gpus(4));
  CHECK(rank_places(plan)[2] == RankPlace{1, 0, 0});
  CHECK(rank_places(plan)[3] == RankPlace{1, 1, 0});
  CHECK(describe(plan) == "pp2 dp2 tp1 | 3+2 layers | n1/0 n1/1 n1/2 n1/3");
}

TEST_CASE("a uniform plan that cannot be is refused with the reason") {
  CHECK_THROWS_WITH_AS(uniform_plan(4, 1, 3, 16, 4, gpus(4)),
                       "plan: 3 layers cannot fill 4 stages; use fewer GPUs or a deeper model", Error);
  CHECK_THROWS_AS(uniform_plan(2, 2, 8, 16, 4, gpus(3)), Error);
  CHECK_THROWS_AS(uniform_plan(1, 4, 8, 4, 4, gpus(4)), Error);
  CHECK_THROWS_AS(uniform_plan(0, 1, 8, 4, 4, gpus(4)), Error);
  CHECK_THROWS_AS(uniform_plan(1, 1, 8, 6, 4, gpus(1)), Error);
}

TEST_CASE("a uniform plan's replicas take TP neighbours, never of two nodes") {
  const Plan plan = uniform_plan(2, 1, 5, 8, 4, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}, 2);
  CHECK(plan.stages[1].tp == 2);
  CHECK(plan.stages[1].replicas[0].gpus == std::vector<GpuId>{{"n2", 0}, {"n2", 1}});
  CHECK(validate(plan, 5).empty());
  CHECK_THROWS_WITH_AS(uniform_plan(1, 1, 5, 8, 4, {{"n1", 0}, {"n2", 0}}, 2),
                       "plan: stage 0 replica 0 spans nodes n1 and n2; a TP group lies on one node", Error);
  CHECK_THROWS_WITH_AS(uniform_plan(1, 2, 5, 8, 4, {{"n1", 0}, {"n1", 1}, {"n1", 2}}, 2),
                       "plan: 1 stages of 2 replicas of 2 GPUs need 4 GPUs, there are 3", Error);
  CHECK_THROWS_AS(uniform_plan(1, 1, 5, 8, 4, {{"n1", 0}}, 0), Error);
}

TEST_CASE("each rule of a plan has its own message") {
  Plan plan = two_by_two();
  CHECK(breaks(plan, "the model has 6", 6));
  plan.stages[0].replicas[0].gpus[0] = plan.stages[1].replicas[0].gpus[0];
  CHECK(breaks(plan, "used twice"));

  plan = two_by_two();
  plan.stages[0].replicas[0].share = 3;
  CHECK(breaks(plan, "shares that sum to 5"));

  plan = two_by_two();
  plan.stages[1].layers = 0;
  CHECK(breaks(plan, "stage 1 has no layer"));

  plan = two_by_two();
  plan.stages[0].tp = 2;
  CHECK(breaks(plan, "its TP degree is 2"));

  plan = two_by_two();
  plan.stages[0].tp = 2;
  plan.stages[0].replicas = {{4, {{"n1", 0}, {"n2", 0}}}};
  CHECK(breaks(plan, "spans nodes n1 and n2"));

  plan = two_by_two();
  plan.micro_batches = 3;
  CHECK(breaks(plan, "no multiple of 3"));

  plan = two_by_two();
  plan.stages.clear();
  CHECK(breaks(plan, "no stage"));

  plan = two_by_two();
  plan.stages[0].replicas.clear();
  CHECK(breaks(plan, "no replica"));

  plan = two_by_two();
  plan.stages[0].replicas[1].share = 0;
  CHECK(breaks(plan, "no sample"));
}

TEST_CASE("a plan keeps the places of another where micro-batches, shares and the schedule alone differ") {
  const std::vector<GpuId> gpus{{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}};
  const Plan plan = uniform_plan(2, 2, 8, 16, 2, gpus);
  const auto kept = [&](const std::function<void(Plan&)>& change) {
    Plan other = plan;
    change(other);
    CHECK(keeps_places(plan, other) == keeps_places(other, plan));
    return keeps_places(plan, other);
  };
  CHECK(kept([](Plan&) {}));
  CHECK(kept([](Plan& other) { other.micro_batches = 4; }));
  CHECK(kept([](Plan& other) { other.schedule = "gpipe"; }));
  CHECK(kept([](Plan& other) { other.stages[0].replicas[0].share = 5; }));
  CHECK(kept([](Plan& other) { other.chunks = {{0, 4}, {1, 4}}; }));  // what no chunks mean
  CHECK_FALSE(kept([](Plan& other) { other.chunks = {{0, 2}, {1, 4}, {0, 2}}; }));
  CHECK_FALSE(kept([](Plan& other) { other.global_batch = 32; }));
  CHECK_FALSE(kept([](Plan& other) { other.stages[0].layers = 5, other.stages[1].layers = 3; }));
  CHECK_FALSE(kept([](Plan& other) { other.stages[1].tp = 2; }));
  CHECK_FALSE(kept([](Plan& other) { other.stages.pop_back(); }));
  CHECK_FALSE(kept([](Plan& other) { other.stages[0].replicas.pop_back(); }));
  CHECK_FALSE(kept([](Plan& other) { std::swap(other.stages[0].replicas[0], other.stages[0].replicas[1]); }));
  CHECK_FALSE(kept([](Plan& other) { other.stages[0].replicas[0].gpus[0].index = 7; }));
}

TEST_CASE("a plan survives JSON, and equal plans have equal hashes") {
  const Plan plan = two_by_two();
  const Plan copy = Json::parse(Json(plan).dump()).get<Plan>();
  CHECK(copy == plan);
  CHECK(hash_value(copy) == hash_value(plan));
  Plan other = plan;
  other.stages[1].replicas[1].gpus[0].index = 7;
  CHECK(hash_value(other) != hash_value(plan));
}

TEST_CASE("JSON of a plan is taken exactly or not at all") {
  const Json good = two_by_two();
  const auto refused = [](Json json) { CHECK_THROWS_AS(json.get<Plan>(), Error); };
  Json bad = good;
  bad.erase("stages");
  refused(bad);
  bad = good;
  bad["surprise"] = 1;
  refused(bad);
  bad = good;
  bad["micro_batches"] = "4";
  refused(bad);
  bad = good;
  bad["micro_batches"] = 1e18;
  refused(bad);
  bad = good;
  bad["micro_batches"] = std::int64_t{1} << 40;
  refused(bad);
  bad = good;
  bad["stages"][0]["replicas"][0]["gpus"] = {"n1"};
  refused(bad);
  bad["stages"][0]["replicas"][0]["gpus"] = {"n1/-1"};
  refused(bad);
  bad["stages"][0]["replicas"][0]["gpus"] = {"/1"};
  refused(bad);
  bad["stages"][0]["replicas"][0]["gpus"] = {1};
  refused(bad);
  refused(Json::array());
}

TEST_CASE("a job and a decision survive JSON") {
  ElasticJob job;
  job.id = 7;
  job.uid = 1000;
  job.name = "train";
  job.accuracy = Accuracy::relaxed;
  job.plan = two_by_two();
  job.phase = JobPhase::switching;
  job.anchor = {{7, "n1", {0, 1}}};
  job.extensions = {{9, "n2", {3}}};
  job.step_seconds = 0.25;
  job.unfit = {{"n2", 1}};
  const auto same = Json::parse(Json(job).dump()).get<ElasticJob>();
  CHECK(Json(same) == Json(job));
  CHECK(same.unfit == job.unfit);
  // A launcher of before says nothing of islands.
  CHECK_FALSE(Json(job).contains("gpu_islands"));
  CHECK(same.gpu_islands.empty());
  job.gpu_islands = {{"n1/7", {0, 1}}};
  CHECK(Json::parse(Json(job).dump()).get<ElasticJob>().gpu_islands == job.gpu_islands);
  CHECK_FALSE(Json(job).contains("jobs_reach"));
  job.jobs_reach = true;
  CHECK(Json::parse(Json(job).dump()).get<ElasticJob>().jobs_reach);
  Json wrong = job;
  wrong["gpu_islands"]["n1/7"] = "all";
  CHECK_THROWS_AS(wrong.get<ElasticJob>(), Error);

  Decision decision;
  decision.id = 3;
  decision.kind = DecisionKind::migrate;
  decision.plan = two_by_two();
  decision.acquire = {{"n2", 2, 2, 1000, 5}};
  decision.release = {9};
  decision.candidates = {{"pp2 dp2 tp1", 2, 0.5, 1.5, "slower"}};
  const auto again = Json::parse(Json(decision).dump()).get<Decision>();
  CHECK(Json(again) == Json(decision));
}

TEST_CASE("names of enumerations go both ways, and an unknown one names the choices") {
  for (const auto phase : {JobPhase::launching, JobPhase::ready, JobPhase::ending})
    CHECK(phase_from(to_string(phase)) == phase);
  for (const auto trigger : {Trigger::job_submitted, Trigger::user}) CHECK(trigger_from(to_string(trigger)) == trigger);
  CHECK_THROWS_WITH_AS(accuracy_from("exact"), "accuracy \"exact\": unknown; use one of bitwise, relaxed", Error);
}

namespace {

// Two stages with two chunks each. The model goes through stage 0, 1, 0, 1.
Plan chunked() {
  Plan plan = uniform_plan(2, 1, 6, 16, 4, gpus(2));
  plan.chunks = {{0, 1}, {1, 2}, {0, 2}, {1, 1}};
  plan.schedule = "interleaved";
  return plan;
}

}  // namespace

TEST_CASE("a plan with chunks is valid, says so, and comes back from JSON") {
  const Plan plan = chunked();
  CHECK(validate(plan, 6).empty());
  CHECK(describe(plan) == "pp2 dp1 tp1 interleaved | 1@0+2@1+2@0+1@1 layers | n1/0 n1/1");
  CHECK(Json(plan).get<Plan>() == plan);
  Plan other = plan;
  other.chunks[0].layers = 2, other.chunks[2].layers = 1;
  CHECK(hash_value(other) != hash_value(plan));
  other = plan;
  other.schedule = "gpipe";
  CHECK(hash_value(other) != hash_value(plan));
}

TEST_CASE("a plan without chunks is written as ever, and means one chunk per stage") {
  const Plan plan = two_by_two();
  const Json json = plan;
  CHECK(json.size() == 3);
  CHECK(json.get<Plan>().chunks.empty());
  CHECK(plan.model_chunks() == std::vector<Chunk>{{0, 3}, {1, 2}});
}

TEST_CASE("each rule of chunks has its own message") {
  const auto spoilt = [](const auto& spoil) {
    Plan plan = chunked();
    spoil(plan);
    return plan;
  };
  CHECK(breaks(spoilt([](Plan& p) { p.chunks[1].stage = 2; }), "chunk 1 is on stage 2, the plan has 2 stages"));
  CHECK(breaks(spoilt([](Plan& p) { p.chunks[1].stage = -1; }), "chunk 1 is on stage -1"));
  CHECK(breaks(spoilt([](Plan& p) { p.chunks[1].layers = -2; }), "chunk 1 has -2 layers"));
  CHECK(breaks(spoilt([](Plan& p) { p.chunks[1].layers = 0; }), "chunk 1 has no layer; only the first and the last"));
  CHECK(breaks(spoilt([](Plan& p) { p.chunks[1].layers = 1; }), "stage 1 has 3 layers, its chunks hold 2"));
  CHECK(breaks(spoilt([](Plan& p) { p.chunks = {{0, 3}, {0, 3}}; }), "stage 1 has no chunk"));
  CHECK_THROWS_AS(Json::parse(R"({"global_batch":1,"micro_batches":1,"stages":[],"chunks":[]})").get<Plan>(), Error);
  CHECK_THROWS_AS(Json::parse(R"({"global_batch":1,"micro_batches":1,"stages":[],"chunks":{"stage":0}})").get<Plan>(),
                  Error);
}
