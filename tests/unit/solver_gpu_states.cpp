// States of GPUs. States that cannot be told apart count as one.
#include <doctest/doctest.h>

#include <set>

#include "planner/core/solver/gpu_states.hpp"

using namespace espalier;

namespace {

struct Nodes {
  Hardware hardware;
  Topology topology;
  JobCoefficients job;
  PlanBounds bounds;
  std::vector<Piece> available;

  Nodes(int count, std::int16_t gpus, int nodes_of_a_leaf) {
    hardware.types = {{"h100"}};
    hardware.kinds = {{}};
    job.layers = 8;
    job.global_batch = 64;
    job.gpu.resize(1);
    for (int n = 0; n < count; ++n) {
      topology.add_node("n" + std::to_string(n), 0, {}, {"spine", "leaf" + std::to_string(n / nodes_of_a_leaf)});
      available.push_back({n, 0, gpus});
    }
  }
  GpuStates states(const std::vector<int>& tp_degrees, const GpuStates::Takes& takes = {}) const& {
    return {{hardware, topology, job, bounds}, tp_degrees, available, takes};
  }
};

// The number of states that stages can lead to.
int reachable(GpuStates& states) {
  for (int state = 0; state < states.states(); ++state) states.takes(state, 1'000'000);
  CHECK(states.whole());
  return states.states();
}

}  // namespace

TEST_SUITE("solver") {
  TEST_CASE("equal nodes under one switch are interchangeable") {
    // Multisets of 4 counts from 0 to 4 GPUs.
    const Nodes four(4, 4, 4), eight(8, 8, 8);
    auto states = four.states({1});
    CHECK(reachable(states) == 70);
    // 8 nodes with 0, 4 or 8 GPUs left.
    auto units = eight.states({1, 2, 4, 8}, {4, false});
    CHECK(reachable(units) == 45);
  }

  TEST_CASE("equal switches are interchangeable, nodes under different ones are not") {
    // Each leaf of two nodes has the multisets of 2 counts from 0 to 2: 6. Two such leaves have 6 *
    // 7 / 2.
    const Nodes nodes(4, 2, 2);
    auto states = nodes.states({1});
    CHECK(reachable(states) == 21);
  }

  TEST_CASE("the lead node is not interchangeable") {
    Nodes nodes(3, 2, 3);
    nodes.bounds.lead_node = 1;
    auto states = nodes.states({1});
    CHECK(reachable(states) == 3 * 6);
    CHECK(states.can_lead(0));
    for (const Take& take : states.takes(0, 1'000'000))
      if (states.shape(take.shape).replicas == 6) CHECK(!states.can_lead(take.next));
  }

  TEST_CASE("a stage is known by its degree, its replicas and how they spread") {
    const Nodes nodes(2, 4, 1);
    auto states = nodes.states({1, 2, 4, 8});
    CHECK(states.tp_degrees() == std::vector<int>{1, 2, 4});
    std::set<std::array<int, 4>> shapes;
    for (const Take& take : states.takes(0, 1'000'000)) {
      const StageShape& shape = states.shape(take.shape);
      CHECK(shapes.insert({shape.tp, shape.replicas, shape.least_members, shape.level}).second);
      CHECK(states.used(take.next) == shape.tp * shape.replicas);
    }
    // TP 1: 4 on one node, 10 pairs on two nodes. TP 2: 2 and 3. TP 4: 1 and 1. The switches
    // differ: level 2.
    CHECK(shapes.size() == 4 + 10 + 2 + 3 + 1 + 1);
    CHECK(shapes.contains({2, 3, 1, 2}));
    CHECK(shapes.contains({4, 1, 1, 0}));
  }

  TEST_CASE("compact stages leave one node and one switch in parts") {
    const Nodes nodes(4, 2, 2);
    auto states = nodes.states({1}, {1, true});
    for (const Take& take : states.takes(0, 1'000'000)) {
      const auto pieces = states.pieces(std::span(&take, 1));
      int parts = 0, leaf_gpus[2] = {0, 0};
      for (const Piece& piece : pieces[0]) {
        parts += piece.gpus == 1;
        leaf_gpus[piece.node / 2] += piece.gpus;
      }
      CHECK(parts <= 1);
      CHECK((leaf_gpus[0] % 4 == 0 || leaf_gpus[1] % 4 == 0));
    }
    CHECK(states.takes(0, 1'000'000).size() == 8);
  }

  TEST_CASE("the pieces of stages are those that their states took") {
    const Nodes nodes(3, 4, 2);
    auto states = nodes.states({1, 2});
    const Take first = states.takes(0, 1'000'000).back();
    const Take second = states.takes(first.next, 1'000'000).front();
    const std::vector<Take> taken{first, second};
    const auto pieces = states.pieces(taken);
    REQUIRE(pieces.size() == 2);
    CHECK(count_gpus(pieces[0]) == states.used(first.next));
    CHECK(count_gpus(pieces[0]) + count_gpus(pieces[1]) == states.used(second.next));
    for (std::size_t s = 0; s < 2; ++s) {
      const Problem problem{nodes.hardware, nodes.topology, nodes.job, nodes.bounds};
      CHECK(stage_shape(problem, pieces[s], {}, states.shape(taken[s].shape).tp) == states.shape(taken[s].shape));
    }
  }
}
