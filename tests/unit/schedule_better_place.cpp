// Moves of bases to GPUs where their jobs train faster.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/model/assumed_range.hpp"
#include "planner/core/schedule/better_place.hpp"
#include "planner/core/schedule/gpu_type.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/topology/from_view.hpp"
#include "tests/unit/schedule_cases.hpp"

namespace {

using namespace espalier;
using namespace espalier::test;

constexpr JobId kBase = 1000;  // the base of job N is Slurm job 1000 + N

// A movable job on these GPUs, with an hour of training left.
ElasticJob movable_job(JobId id, const std::vector<GpuId>& gpus) {
  ElasticJob one = job(id, gpus.front().node, {gpus.front().index});
  one.anchor.clear();
  for (const GpuId& gpu : gpus) {
    if (one.anchor.empty() || one.anchor.back().node != gpu.node) one.anchor.push_back({kBase + id, gpu.node, {}});
    one.anchor.back().gpus.push_back(gpu.index);
  }
  one.plan = uniform_plan(static_cast<int>(gpus.size()), 1, 8, 4, 4, gpus);
  one.total_steps = 3600;
  return one;
}

// With data sheets, an H100 is 3.2 times as fast as an A100.
PlanningInput with_site(PlanningInput input) {
  input.site = std::make_shared<const Site>(site_from_view(input.cluster, {}).site);
  return input;
}

// Nothing of the jobs' times is assumed, but for the computation of GPUs of the type `but`.
PlanningInput measured(PlanningInput input, const std::string& but = "") {
  for (const ElasticJob& one : input.jobs) {
    JobCoefficients& known = input.coefficients[one.id] = assumed_for(one, *input.site);
    count_as_measured(known);
    const int type = input.site->hardware.type_index(but);
    if (type >= 0) known.gpu[static_cast<std::size_t>(type)].assumed_comp = true;
  }
  return input;
}

// Job 5 has two A100 of n1; two H100, on which nobody has measured it, are idle on n2.
PlanningInput slow() {
  return measured(with_site(input_of({node("n1", 4, "leaf1", "a100"), node("n2", 2, "leaf1", "h100")},
                                     {movable_job(5, {{"n1", 0}, {"n1", 1}})})),
                  "h100");
}

std::optional<BetterPlace> find(const PlanningInput& input, const std::vector<MovableJob>& movable = {{5, {}}},
                                const std::vector<Decision>& decided = {}) {
  return BetterPlaces().find_place(input, bold(), 1.1, movable, decided);
}

TEST_CASE("a base moves to a faster type of GPU") {
  const auto place = find(slow());
  REQUIRE(place);
  CHECK(place->job == 5);
  CHECK(place->type == "h100");
  REQUIRE(place->base.size() == 1);
  CHECK(place->base.front().node == "n2");
  CHECK(place->base.front().gpus == 2);
  CHECK(place->base.front().lease_minutes == 0);
  CHECK(place->next_ms < place->present_ms / 2);
  CHECK(describe(*place).find("h100 GPUs on n2 train it ") == 0);
  CHECK(describe(*place).find(" times as fast as its a100") != std::string::npos);
  const PlanningInput input = slow();
  const auto decision = BetterPlaces().find(input, bold(), 1.1, {{5, {}}}, {});
  REQUIRE(decision);
  CHECK(decision->kind == DecisionKind::migrate);
  CHECK(decision->job == 5);
  CHECK(decision->acquire == place->base);
  CHECK(moves_base(*decision));
  CHECK(decision->reason == describe(*place));
  CHECK(decision->plan.gpu_count() == 2);
  CHECK(decision->predicted_step_seconds == doctest::Approx(place->next_ms / place->present_ms));
}

TEST_CASE("a base does not move to another type of GPU") {
  PlanningInput input = slow();
  std::vector<MovableJob> movable{{5, {}}};
  std::vector<Decision> decided;
  SUBCASE("that the job leaves out") { movable.front().reach.types = {"a100"}; }
  SUBCASE("that may round differently, under accuracy=bitwise") {
    input.jobs.front().model.setting = TrainingSetting{"espalier-train-cuda 0.1.0", "", "", "", false, false};
  }
  SUBCASE("where too few are idle") { input.cluster.nodes[1].gpu_owner[0] = 9; }
  SUBCASE("that a node's health check keeps it from") { input.cluster.nodes[1].unhealthy = "ECC errors"; }
  SUBCASE("of a node that is down") { input.cluster.nodes[1].usable = false; }
  SUBCASE("that a waiting job could use") {
    input.cluster.waiting.emplace_back();
    input.cluster.waiting.back().id = 50;
    input.cluster.waiting.back().gpus = 8;
  }
  SUBCASE("that a decision takes") {
    decided.emplace_back();
    decided.back().job = 6;
    decided.back().acquire.push_back({.node = "n2", .gpus = 1});
  }
  SUBCASE("when the job changes otherwise") {
    decided.emplace_back();
    decided.back().job = 5;
  }
  SUBCASE("shortly before its end") { input.jobs.front().step = 3550; }
  SUBCASE("while it is held") { input.jobs.front().held = true; }
  SUBCASE("while it is being changed") { input.jobs.front().phase = JobPhase::acquiring; }
  SUBCASE("before its first steps were measured") { input.jobs.front().step_seconds = 0; }
  SUBCASE("right after another change") { input.last_change[5] = input.now - 1; }
  SUBCASE("when it was not measured on its present type") { input.coefficients.clear(); }
  SUBCASE("when the job has no base of its own") { input.jobs.front().anchor.front().job = 5; }
  SUBCASE("when it is not movable") { movable.clear(); }
  CHECK(!find(input, movable, decided));
}

TEST_CASE("a base does not move to a slower type of GPU, nor to one that may turn out no faster") {
  PlanningInput input = with_site(input_of({node("n1", 2, "leaf1", "h100"), node("n2", 2, "leaf1", "a100")},
                                           {movable_job(5, {{"n1", 0}, {"n1", 1}})}));
  input = measured(input);
  CHECK(!find(input));
  // Nobody has measured the job on the other type, which is 1.3 times as fast by its data sheet.
  auto site = std::make_shared<Site>(*input.site);
  for (GpuType& type : site->hardware.types) {
    type.tflops = type.name == "a100" ? 1300 : 1000;
    type.memory_bandwidth = 0;  // TFLOPS count alone then
  }
  input.site = site;
  CHECK(!find(measured(input, "a100")));
  CHECK(find(measured(input)));
}

TEST_CASE("a base moves only where the rest of the training wins back the time for which both bases are held") {
  PlanningInput input = with_site(input_of({node("n1", 2, "leaf1", "h100"), node("n2", 2, "leaf1", "a100")},
                                           {movable_job(5, {{"n1", 0}, {"n1", 1}})}));
  auto site = std::make_shared<Site>(*input.site);
  for (GpuType& type : site->hardware.types) {
    type.tflops = type.name == "a100" ? 1300 : 1000;
    type.memory_bandwidth = 0;  // TFLOPS count alone then
  }
  input.site = site;
  input = measured(std::move(input));
  input.jobs.front().step = 3600 - 150;  // 0.3 * 150 s are less than 60 s
  CHECK(!find(input));
  input.jobs.front().step = 3600 - 300;
  CHECK(find(input));
}

TEST_CASE("only a bit-identical training on GPUs keeps its type") {
  ElasticJob one = slow().jobs.front();
  const auto runs = [&](const char* program, Accuracy accuracy) {
    one.accuracy = accuracy;
    one.model.setting = TrainingSetting{program, "", "", "", false, false};
    return keeps_gpu_type(one);
  };
  CHECK(runs("espalier-train-cuda 0.1.0", Accuracy::bitwise));
  CHECK(!runs("espalier-train-cuda 0.1.0", Accuracy::relaxed));
  CHECK(!runs("espalier-train 0.1.0", Accuracy::bitwise));
  one.model.setting.reset();
  CHECK(!keeps_gpu_type(one));
}

TEST_CASE("the type of a base is that of all its nodes") {
  const ClusterView cluster{{node("n1", 2), node("n2", 2), node("n3", 2, "leaf1", "a100")}, {}, {}};
  CHECK(gpu_type_of(movable_job(5, {{"n1", 0}, {"n2", 0}}), cluster) == "h100");
  CHECK(gpu_type_of(movable_job(5, {{"n1", 0}, {"n3", 0}}), cluster) == "a100+h100");
  CHECK(gpu_type_of(movable_job(5, {{"n9", 0}}), cluster).empty());
}

TEST_CASE("a base moves to fewer nodes of its type where links between nodes cost it time") {
  PlanningInput input =
      input_of({node("n1", 2), node("n2", 2), node("n3", 2)}, {movable_job(5, {{"n1", 0}, {"n2", 0}})});
  input.jobs.front().model.setting = TrainingSetting{"espalier-train-cuda 0.1.0", "", "", "", false, false};
  auto site = std::make_shared<Site>(site_from_view(input.cluster, {}).site);
  for (NodeKind& kind : site->hardware.kinds) kind.nic_bandwidth = 1;  // bytes/ms
  input.site = site;
  input = measured(input);
  const auto place = find(input);
  REQUIRE(place);
  REQUIRE(place->base.size() == 1);
  CHECK(place->base.front().node == "n3");
  CHECK(place->base.front().gpus == 2);
  CHECK(describe(*place).find("times as fast as those on 2 nodes") != std::string::npos);
  // With fast links it stays.
  for (NodeKind& kind : site->hardware.kinds) kind.nic_bandwidth = 1e9;
  CHECK(!find(input));
}

TEST_CASE("of several jobs the one moves that saves the most GPU time") {
  PlanningInput input = measured(with_site(input_of(
      {node("n1", 6, "leaf1", "a100"), node("n2", 4, "leaf1", "h100")},
      {movable_job(5, {{"n1", 0}, {"n1", 1}}), movable_job(6, {{"n1", 2}, {"n1", 3}, {"n1", 4}, {"n1", 5}})})));
  CHECK(find(input, {{5, {}}, {6, {}}})->job == 6);
  input.jobs[1].step = 3300;
  CHECK(find(input, {{5, {}}, {6, {}}})->job == 5);
}

TEST_CASE("every job gets its turn to be looked at") {
  std::vector<ElasticJob> jobs;
  std::vector<MovableJob> movable;
  std::vector<NodeView> nodes{node("fast", 1, "leaf1", "h100")};
  for (JobId id = 1; id <= 20; ++id) {
    char name[8];
    std::snprintf(name, sizeof name, "n%02u", id);
    nodes.push_back(node(name, 1, "leaf1", "a100"));
    jobs.push_back(movable_job(id, {{name, 0}}));
    movable.push_back({id, {}});
    // All but one would need the memory of more than one H100, and are looked at in vain.
    if (id != 20) jobs.back().model.hidden = 1 << 16;
  }
  jobs.back().step = 100;  // has the least left, and is looked at last
  const PlanningInput input = measured(with_site(input_of(nodes, jobs)));
  BetterPlaces places;
  int looks = 0;
  std::optional<BetterPlace> found;
  while (!found && ++looks <= 5) found = places.find_place(input, bold(), 1.1, movable, {});
  REQUIRE(found);
  CHECK(found->job == 20);
  CHECK(looks == 3);
}

TEST_CASE("the plan at rest is on the second base and the extensions, the plan right after a move may keep a GPU") {
  PlanningInput input = slow();
  const ElasticJob& one = input.jobs.front();
  const std::vector<ExtensionRequest> base{{.node = "n2", .gpus = 2}};
  const auto rest = plan_at_rest(one, base, input.cluster, nullptr);
  REQUIRE(rest);
  for (const GpuId& gpu : rest->ranks()) CHECK(gpu.node == "n2");
  CHECK(rest->gpu_count() == 2);
  const auto after = plan_after_move(one, base, input.cluster, nullptr);
  REQUIRE(after);
  CHECK(after->ranks().back().node == "n1");
  CHECK(!plan_at_rest(one, {{.node = "n9", .gpus = 2}}, input.cluster, nullptr));
}

}  // namespace
