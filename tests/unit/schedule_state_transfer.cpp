// The scheduler's estimate of a hand-off's cost before the first measurement.
#include <doctest/doctest.h>

#include "planner/core/schedule/neutral_site.hpp"
#include "planner/core/schedule/state_transfer.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

struct Case {
  Case() {
    site = neutral_site(input_of({node("n1", 4), node("n2", 4)}, {}).cluster);
    hardware = site->hardware;
    for (NodeKind& kind : hardware.kinds) {
      kind.nic_bandwidth = 1e6;  // 1 GB/s
      kind.nics = 2;
    }
    coefficients.layers = 8;
    coefficients.param_optim_bytes = 1e9;
    coefficients.weight_bytes = 0.25e9;
    coefficients.gpu.resize(hardware.types.size());
    first = site->topology.find("n1");
    second = site->topology.find("n2");
  }
  Problem problem() const { return {hardware, site->topology, coefficients, {}}; }

  std::shared_ptr<const Site> site;
  Hardware hardware;
  JobCoefficients coefficients;
  int first = 0, second = 0;
};

}  // namespace

TEST_SUITE("schedule") {
  TEST_CASE("state that goes to a node of its own takes the node's rails at half their bandwidth") {
    const Case it;
    const PlanSketch two_stages{4, {{1, 4, {{it.first, 0, 4}}}, {1, 4, {{it.second, 0, 2}}}}};
    // Two replicas of four layers of 1 GB, over 2 x 1 GB/s x 0.5.
    CHECK(transfer_seconds(it.problem(), two_stages, {{it.first, {0, 1, 2, 3}}}) == doctest::Approx(8));
  }

  TEST_CASE("links that were measured to be slower, and switch levels, make it longer") {
    Case it;
    const PlanSketch two_stages{4, {{1, 4, {{it.first, 0, 4}}}, {1, 4, {{it.second, 0, 2}}}}};
    const std::vector<NodeGpus> held{{it.first, {0, 1, 2, 3}}};
    it.coefficients.rail_ms_per_byte = 4e-6;  // 0.25 GB/s
    CHECK(transfer_seconds(it.problem(), two_stages, held) == doctest::Approx(32));
    it.coefficients.rail_ms_per_byte = 1e-7;  // the hardware is slower
    CHECK(transfer_seconds(it.problem(), two_stages, held) == doctest::Approx(8));
    Topology apart;
    for (const char* name : {"n1", "n2"})
      apart.add_node(name, 0, std::vector<std::int16_t>(4, 0), {"core", std::string("leaf of ") + name});
    const Problem problem{it.hardware, apart, it.coefficients, {}};
    REQUIRE(apart.distance(apart.find("n1"), apart.find("n2")) == 2);
    const PlanSketch there{4, {{1, 8, {{apart.find("n2"), 0, 2}}}}};
    CHECK(transfer_seconds(problem, there, {{apart.find("n1"), {0}}}) == doctest::Approx(16 / it.hardware.crossing));
  }

  TEST_CASE("nodes that the job is on already wait for nothing") {
    const Case it;
    const PlanSketch plan{4, {{1, 8, {{it.first, 0, 4}, {it.second, 0, 4}}}}};
    CHECK(transfer_seconds(it.problem(), plan, {{it.first, {0}}, {it.second, {0}}}) == 0);
  }

  TEST_CASE("with ZeRO-1 a replica fetches its weights and its part of the optimizer's state") {
    Case it;
    it.coefficients.zero1 = true;
    const PlanSketch plan{4, {{2, 8, {{it.first, 0, 4}, {it.second, 0, 4}}}}};
    // Four replicas of TP 2, two of them on n2: each 8 GB x (1/4 + 3/4 / 4).
    CHECK(transfer_seconds(it.problem(), plan, {{it.first, {0, 1, 2, 3}}}) ==
          doctest::Approx(2 * 8 * (0.25 + 0.75 / 4)));
  }

  TEST_CASE("a job does not grow onto a node that its state cannot reach in the time that it would win") {
    PlanningInput input = input_of({node("n1", 1), node("n2", 1)}, {job(1, "n1", {0})});
    input.jobs[0].accuracy = Accuracy::relaxed;
    input.jobs[0].model.global_batch = 64;
    auto site = std::make_shared<Site>(*neutral_site(input.cluster));
    input.site = site;
    CHECK(decide(input).size() == 1);
    for (NodeKind& kind : site->hardware.kinds) kind.nic_bandwidth = 1e-3;
    input.site = std::make_shared<const Site>(*site);
    CHECK(decide(input).empty());
  }

  TEST_CASE("state that other chunks need on a GPU moves from its node's GPUs, or over the rails") {
    Case it;
    for (NodeKind& kind : it.hardware.kinds) kind.dp_bandwidth = 4e6;  // 4 GB/s
    it.coefficients.first.param_optim_bytes = 3e9;
    it.coefficients.last.param_optim_bytes = 5e9;
    const std::vector<GpuId> near{{"n1", 0}, {"n1", 1}};
    const Plan plain = uniform_plan(2, 1, 8, 4, 4, near);
    CHECK(transfer_seconds(it.problem(), plain, plain) == 0);
    Plan turns = plain;  // stage 0 gets layers 4 and 5, stage 1 gets 2 and 3
    turns.chunks = {{0, 2}, {1, 2}, {0, 2}, {1, 2}};
    CHECK(transfer_seconds(it.problem(), plain, turns) == doctest::Approx(2 / (4 * 0.5)));
    CHECK(transfer_seconds(it.problem(), turns, plain) == doctest::Approx(2 / (4 * 0.5)));
    Plan v = plain;  // stage 0 has layers 0, 1, 6, 7 and the head, stage 1 the rest
    v.chunks = {{0, 2}, {1, 2}, {1, 2}, {0, 2}};
    CHECK(transfer_seconds(it.problem(), plain, v) == doctest::Approx((2 + 5) / (4 * 0.5)));
    CHECK(transfer_seconds(it.problem(), turns, v) == doctest::Approx((2 + 5) / (4 * 0.5)));
    // The same between nodes: n1 needs layers 6, 7 and the head over its two rails.
    Plan v_apart = v, apart = plain;
    for (Plan* plan : {&v_apart, &apart}) plan->stages[1].replicas[0].gpus = {{"n2", 0}};
    CHECK(transfer_seconds(it.problem(), apart, v_apart) == doctest::Approx((2 + 5) / (2 * 1 * 0.5)));
    // The optimizer's part is shared by replicas with ZeRO-1.
    it.coefficients.zero1 = true;
    const std::vector<GpuId> four{{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}};
    const Plan wide = uniform_plan(2, 2, 8, 4, 2, four);
    Plan wide_turns = wide;
    wide_turns.chunks = turns.chunks;
    CHECK(transfer_seconds(it.problem(), wide, wide_turns) == doctest::Approx(2 * (0.25 + 0.75 / 2) / (4 * 0.5)));
    // Shards of another TP degree are no shards of this one.
    const Plan sharded = uniform_plan(1, 1, 8, 4, 4, near, 2), one = uniform_plan(1, 2, 8, 4, 2, near);
    it.coefficients.zero1 = false;
    CHECK(transfer_seconds(it.problem(), one, sharded) == doctest::Approx((8 + 3 + 5) / 2.0 / (4 * 0.5)));
  }
}
