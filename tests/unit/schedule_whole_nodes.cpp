// Waiting jobs that need more of a node than GPUs: the whole node, its CPUs, its memory.
#include <doctest/doctest.h>

#include "planner/core/waiting.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Job 10 on n1, with extensions on half of n2 and of n3; GPUs 2 and 3 of both are idle.
PlanningInput lent() {
  auto grown = job(10, "n1", {0, 1, 2, 3});
  extend(grown, 20, "n2", {0, 1});
  extend(grown, 21, "n3", {0});
  extend(grown, 22, "n3", {1});
  deepen(grown, 60);
  return input_of({node("n1", 4), node("n2", 4), node("n3", 4)}, {grown});
}

WaitingJob whole(int gpus, int nodes) {
  WaitingJob job;
  job.id = 30;
  job.gpus = gpus;
  job.nodes = nodes;
  job.whole_nodes = true;
  return job;
}

std::vector<JobId> reclaimed(const WaitingPlan& plan) {
  const auto found = plan.reclaims.find(10);
  return found == plan.reclaims.end() ? std::vector<JobId>{} : found->second.extensions;
}

int free_on(const WaitingPlan& plan, const std::string& name) {
  for (const Supply& supply : plan.supplies)
    if (supply.node->name == name) return static_cast<int>(supply.gpus.size());
  return -1;
}

int lease_on(const WaitingPlan& plan, const std::string& name) {
  for (const Supply& supply : plan.supplies)
    if (supply.node->name == name) return supply.lease_minutes;
  return -1;
}

}  // namespace

TEST_CASE("for a job with --exclusive all extensions leave a node, though it has idle GPUs enough") {
  auto input = lent();
  input.cluster.waiting = {whole(2, 1)};
  SUBCASE("a shared job would start at once") {
    input.cluster.waiting.front().whole_nodes = false;
    CHECK(reclaimed(serve_waiting(input, {})).empty());
  }
  SUBCASE("the node with the least loss") {
    const auto plan = serve_waiting(input, {}, {{20, 1}, {21, 0.3}, {22, 0.3}});
    CHECK(reclaimed(plan) == std::vector<JobId>{21, 22});
    CHECK(free_on(plan, "n3") == 0);  // kept for it
    CHECK(free_on(plan, "n2") == 2);
  }
  SUBCASE("an idle node costs nothing") {
    input.cluster.nodes.push_back(node("n4", 4));
    const auto plan = serve_waiting(input, {});
    CHECK(reclaimed(plan).empty());
    CHECK(free_on(plan, "n4") == 0);
  }
  SUBCASE("two nodes") {
    input.cluster.waiting = {whole(4, 2)};
    CHECK(reclaimed(serve_waiting(input, {})) == std::vector<JobId>{20, 21, 22});
  }
  SUBCASE("each task of an array has nodes of its own") {
    input.cluster.waiting.front().tasks = 2;
    CHECK(reclaimed(serve_waiting(input, {})) == std::vector<JobId>{20, 21, 22});
  }
}

TEST_CASE("a job with --exclusive gets no node where another job runs, and nothing is taken back there") {
  auto input = lent();
  input.cluster.waiting = {whole(2, 1)};
  SUBCASE("with GPUs") {
    hold(input.cluster, {77, "n2", {2}});
    hold(input.cluster, {78, "n3", {2}});
  }
  SUBCASE("without") {
    for (const char* name : {"n2", "n3"}) input.cluster.find(name)->cpu_jobs = true;
  }
  SUBCASE("that has too little memory for it") {
    input.cluster.waiting.front().memory_mb = 2000;
    for (const char* name : {"n2", "n3"}) input.cluster.find(name)->memory_mb = 1000;
  }
  const auto plan = serve_waiting(input, {});
  CHECK(reclaimed(plan).empty());
  REQUIRE(plan.unserved.size() == 1);
  CHECK(plan.unserved.front().each == 4);
  CHECK(lease_on(plan, "n2") == 0);  // its start is unknown
}

TEST_CASE("where a job lacks CPUs or memory no lease goes beyond its start, unless Slurm preempts for it") {
  struct Case {
    int gpus, cpus;
    long memory_mb;
  };
  for (const Case& one : {Case{0, 5, 0}, Case{0, 1, 1001}, Case{2, 5, 0}, Case{2, 1, 1001}}) {
    CAPTURE(one.gpus);
    CAPTURE(one.cpus);
    auto input = lent();
    for (NodeView& node : input.cluster.nodes) {
      node.free_cpus = 4;
      node.free_memory_mb = 1000;
    }
    WaitingJob waits;
    waits.id = 30;
    waits.gpus = one.gpus;
    const auto serve = [&] {
      (waits.gpus > 0 ? input.cluster.waiting : input.cluster.waiting_for_cpus) = {waits};
      return serve_waiting(input, {});
    };
    waits.cpus = 4;
    waits.memory_mb = 1000;
    CHECK(lease_on(serve(), "n2") == 60);
    waits.cpus = one.cpus;
    waits.memory_mb = one.memory_mb;
    CHECK(lease_on(serve(), "n2") == 0);
    CHECK(lease_on(serve(), "n3") == 0);
    CHECK(reclaimed(serve()).empty());
    waits.expected_start = input.now + 600;
    CHECK(lease_on(serve(), "n2") == 8);
    waits.only_nodes = {"n3"};
    CHECK(lease_on(serve(), "n2") == 60);
    waits.only_nodes = {};
    input.cluster.nodes.push_back(node("n4", 4));  // where it fits
    input.cluster.nodes.back().free_cpus = 100;
    input.cluster.nodes.back().free_memory_mb = 100000;
    CHECK(lease_on(serve(), "n2") == 60);
    input.cluster.nodes.pop_back();
    for (NodeView& node : input.cluster.nodes) {  // which cannot have it in any case
      node.cpus = 4;
      node.memory_mb = 1000;
    }
    CHECK(lease_on(serve(), "n2") == 60);
    for (NodeView& node : input.cluster.nodes) {
      node.cpus = 8;
      node.memory_mb = 2000;
    }
    CHECK(lease_on(serve(), "n2") == 8);
    waits.slurm_preempts = true;
    CHECK(lease_on(serve(), "n2") == 60);
  }
}

TEST_CASE("where a job without GPUs needs all of a node, or all of its memory, no lease there is prolonged") {
  auto input = lent();
  for (NodeView& node : input.cluster.nodes) {
    node.free_cpus = node.cpus = 8;
    node.memory_mb = 1000;
    node.free_memory_mb = 900;
  }
  WaitingJob waits;
  waits.id = 30;
  SUBCASE("--exclusive") { waits.whole_nodes = true; }
  SUBCASE("--mem=0") { waits.memory_mb = -1; }
  input.cluster.waiting_for_cpus = {waits};
  CHECK(lease_on(serve_waiting(input, {}), "n2") == 0);
  CHECK(reclaimed(serve_waiting(input, {})).empty());
  input.cluster.nodes.push_back(node("n4", 4));  // empty
  input.cluster.nodes.back().free_cpus = input.cluster.nodes.back().cpus = 8;
  input.cluster.nodes.back().free_memory_mb = input.cluster.nodes.back().memory_mb = 1000;
  CHECK(lease_on(serve_waiting(input, {}), "n2") == 60);
}
