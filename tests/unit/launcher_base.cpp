// The base of a movable job: its form, and how long its keepers hold it.
#include <doctest/doctest.h>

#include "launcher/base/base_jobs.hpp"
#include "launcher/base/base_shape.hpp"
#include "launcher/node/base_tenure.hpp"
#include "launcher/node/node_holder.hpp"
#include "planner/core/error.hpp"

namespace {

using namespace espalier::launcher;
using namespace std::chrono_literals;

std::vector<NodeCapacity> partition() {
  return {{"cpu1", "", 0, 64, 256000},
          {"a1", "a100", 4, 32, 100000},
          {"a2", "a100", 4, 32, 100000},
          {"h1", "h100", 8, 90, 900000},
          {"h2", "h100", 8, 90, 900000}};
}

TEST_CASE("a base gets as few nodes as can be, as many GPUs on each, and a share of their CPUs and memory") {
  const BaseShape one = base_shape(8, partition(), {});
  CHECK(one.nodes == 1);
  CHECK(one.gpus_per_node == 8);
  CHECK(one.cpus_per_node == 80);  // one GPU's share stays free
  CHECK(one.memory_mb_per_node == 800000);
  CHECK(one.excluded == std::vector<std::string>{"a1", "a2", "cpu1"});
  const BaseShape two = base_shape(6, partition(), {{"a100"}});
  CHECK(two.nodes == 2);
  CHECK(two.gpus_per_node == 3);
  CHECK(two.cpus_per_node == 19);
  CHECK(two.excluded == std::vector<std::string>{"cpu1", "h1", "h2"});
  const BaseShape any = base_shape(2, partition(), {{"a100", "h100"}});
  CHECK(any.nodes == 1);
  CHECK(any.cpus_per_node == 12);  // that the smallest of these nodes can give
  CHECK(any.excluded == std::vector<std::string>{"cpu1"});
}

TEST_CASE("each GPU has at least one CPU, and no node is asked for more than it has") {
  const BaseShape shape = base_shape(4, {{"n1", "h100", 4, 4, 1000}}, {});
  CHECK(shape.cpus_per_node == 4);
  CHECK(base_shape(4, {{"n1", "h100", 4, 2, 1000}}, {}).cpus_per_node == 2);
}

TEST_CASE("where a node has several GPU types, a base names one, and gets no node of another") {
  std::vector<NodeCapacity> nodes = partition();
  CHECK(base_shape(4, nodes, {}).type.empty());
  nodes.push_back({"m1", "a100", 4, 32, 100000, true});
  CHECK(base_shape(4, nodes, {{"h100"}}).type.empty());  // no such node is among those that it may get
  const BaseShape most = base_shape(4, nodes, {});
  CHECK(most.type == "h100");  // 16 of them, and 12 a100
  CHECK(most.excluded == std::vector<std::string>{"a1", "a2", "cpu1", "m1"});
  const BaseShape named = base_shape(12, nodes, {{"a100"}});
  CHECK(named.type == "a100");
  CHECK(named.nodes == 3);
  CHECK(same_per_gpu(named, 1, 2).type.empty());
}

TEST_CASE("a base that waits is kept from all nodes but those that are named") {
  using Names = std::vector<std::string>;
  const BaseShape shape = base_shape(4, partition(), {});
  CHECK(excluded_but({}, shape, partition(), {}) == Names{"cpu1"});
  CHECK(excluded_but({"a1", "a2"}, shape, partition(), {}) == Names{"cpu1", "h1", "h2"});
  CHECK(excluded_but({"a1", "h1"}, shape, partition(), {{"h100"}}) == Names{"a1", "a2", "cpu1", "h2"});
  CHECK_THROWS_WITH_AS(excluded_but({"a1", "a2"}, base_shape(8, partition(), {}), partition(), {}),
                       "it needs 1 node(s) with 8 GPU(s) each, and of these nodes 0 have them", espalier::Error);
  BaseShape typed = shape;
  typed.type = "h100";  // the request names it, since a node has several types
  CHECK_THROWS_WITH_AS(excluded_but({"a1"}, typed, partition(), {}),
                       "it needs 1 node(s) with 4 GPU(s) each of type h100, and of these nodes 0 have them",
                       espalier::Error);
}

TEST_CASE("a base of several nodes has GPUs of one type: of that with idle GPUs, else of that with the most") {
  using Names = std::vector<std::string>;
  std::vector<NodeCapacity> nodes = partition();
  const Names no_a100{"a1", "a2", "cpu1"}, no_h100{"cpu1", "h1", "h2"};
  nodes.push_back({"h3", "h100", 8, 90, 900000});
  CHECK(base_shape(16, nodes, {}).excluded == no_a100);
  for (NodeCapacity& node : nodes) node.gpus = node.gpus == 0 ? 0 : 4;
  const auto shapes = base_shapes(8, nodes, {});
  REQUIRE(shapes.size() == 2);
  CHECK(shapes.front().nodes == 2);
  CHECK(shapes.front().excluded == no_a100);  // there are more h100
  CHECK(shapes.back().excluded == Names{"cpu1", "h1", "h2", "h3"});
  nodes[1].idle = nodes[2].idle = 4;
  nodes[3].idle = 4;
  CHECK(base_shape(8, nodes, {}).excluded == Names{"cpu1", "h1", "h2", "h3"});
  nodes[4].idle = 4;
  CHECK(base_shape(8, nodes, {}).excluded == no_a100);
  CHECK(base_shape(8, nodes, {{"a100"}}).excluded == Names{"cpu1", "h1", "h2", "h3"});
  // On one node there is one type in any case, and the base may get any.
  CHECK(base_shape(4, nodes, {}).excluded == Names{"cpu1"});
}

TEST_CASE("what a base asks for beside GPUs fits the nodes of each type that it may be steered or moved to") {
  std::vector<NodeCapacity> nodes;
  for (const char* name : {"h1", "h2"}) nodes.push_back({name, "h100", 8, 128, 1'000'000});
  for (const char* name : {"a1", "a2"}) nodes.push_back({name, "a100", 8, 32, 250'000});
  const BaseShape shape = base_shape(16, nodes, {});
  CHECK(shape.excluded == std::vector<std::string>{"h1", "h2"});  // as many GPUs: the first by name
  CHECK(shape.cpus_per_node <= 32);
  CHECK(shape.memory_mb_per_node <= 250'000);
  nodes[0].idle = nodes[1].idle = 8;
  const BaseShape other = base_shape(16, nodes, {});
  CHECK(other.excluded == std::vector<std::string>{"a1", "a2"});
  CHECK(other.cpus_per_node == shape.cpus_per_node);
  CHECK(other.memory_mb_per_node == shape.memory_mb_per_node);
}

TEST_CASE("where no type has enough nodes a base mixes types with accuracy=relaxed only") {
  std::vector<NodeCapacity> nodes{{"a1", "a100", 4, 32, 100000}, {"h1", "h100", 4, 32, 100000}};
  const BaseShape mixed = base_shape(8, nodes, {{}, true});
  CHECK(mixed.nodes == 2);
  CHECK(mixed.excluded.empty());
  CHECK_THROWS_WITH_AS(base_shape(8, nodes, {}),
                       "its partition has no nodes for 8 GPUs of one type, which accuracy=bitwise needs "
                       "(accuracy=relaxed may mix types), with the same number of them on each node",
                       espalier::Error);
}

TEST_CASE("a base of several nodes that is to wait elsewhere gets nodes of one type there, too") {
  using Names = std::vector<std::string>;
  std::vector<NodeCapacity> nodes{{"a1", "a100", 4, 32, 1},
                                  {"a2", "a100", 4, 32, 1},
                                  {"h1", "h100", 4, 32, 1},
                                  {"h2", "h100", 4, 32, 1},
                                  {"h3", "h100", 4, 32, 1}};
  const BaseShape shape = base_shape(8, nodes, {});
  CHECK(excluded_but({"a1", "a2"}, shape, nodes, {}) == Names{"h1", "h2", "h3"});
  CHECK(excluded_but({"a1", "a2", "h1"}, shape, nodes, {}) == Names{"h1", "h2", "h3"});
  CHECK(excluded_but({}, shape, nodes, {}) == Names{"a1", "a2"});
  CHECK(excluded_but({"a1", "h1"}, shape, nodes, {{}, true}) == Names{"a2", "h2", "h3"});
  CHECK_THROWS_WITH_AS(excluded_but({"a1", "h1"}, shape, nodes, {}),
                       "it needs 2 node(s) with GPUs of one type, as accuracy=bitwise keeps the type, and these nodes "
                       "are of several",
                       espalier::Error);
}

TEST_CASE("a base that no nodes can hold is refused in words") {
  CHECK_THROWS_WITH_AS(base_shape(10, partition(), {{"a100"}}),
                       "its partition has no nodes for 10 GPUs of type a100 with the same number of them on each node",
                       espalier::Error);
  CHECK_THROWS_AS(base_shape(2, {{"cpu1", "", 0, 64, 1}}, {}), espalier::Error);
  CHECK_THROWS_AS(base_shape(2, partition(), {{"v100"}}), espalier::Error);
}

struct Kept {
  BaseTenure::Time start{};
  BaseTenure tenure{start, true};
  bool stays(std::chrono::seconds after) const { return tenure.stays(start + after); }
};

using Submitted = BaseTenure::Submitted;

TEST_CASE("a keeper of a base leaves as soon as Slurm says that the submitted job has ended") {
  Kept kept;
  CHECK(kept.stays(1s));
  kept.tenure.heard(Submitted::ended, 0, kept.start);
  CHECK_FALSE(kept.stays(2s));
}

TEST_CASE("a keeper whose launcher is there stays, whatever was heard before") {
  Kept kept;
  kept.tenure.heard(Submitted::runs, 0, kept.start);
  kept.tenure.found();
  CHECK(kept.stays(86400s));
  CHECK_FALSE(kept.tenure.asks(kept.start + 86400s));
}

TEST_CASE("a keeper that never finds its launcher leaves after a minute") {
  Kept kept;
  kept.tenure.heard(Submitted::runs, 0, kept.start);
  CHECK(kept.stays(59s));
  CHECK_FALSE(kept.stays(60s));
}

SlurmJob job_in(SlurmJob::State state) {
  SlurmJob job;
  job.state = state;
  return job;
}

TEST_CASE("while Slurm has the submitted job suspended a keeper waits 10 minutes for its first launcher") {
  SlurmJob suspended = job_in(SlurmJob::State::running);
  suspended.suspended = true;
  Kept kept;
  kept.tenure.heard(state_of(suspended), 0, kept.start);
  CHECK(kept.stays(599s));
  CHECK_FALSE(kept.stays(600s));
  CHECK(state_of(job_in(SlurmJob::State::running)) == Submitted::runs);
  CHECK(state_of(job_in(SlurmJob::State::pending)) == Submitted::waits);
  CHECK(state_of(job_in(SlurmJob::State::ended)) == Submitted::ended);
  CHECK(state_of(std::nullopt) == Submitted::ended);
}

TEST_CASE("a base that ran and ended well unseen was given back by its keepers, and not one that was cancelled") {
  SlurmJob base = job_in(SlurmJob::State::ended);
  CHECK_FALSE(given_back_unseen(base, 600s));  // it waited
  base.holdings = {{10, "n1", {0}}};
  CHECK_FALSE(given_back_unseen(base, 600s));  // cancelled, for example
  base.ended_well = true;
  CHECK(given_back_unseen(base, 5s));
  CHECK(given_back_unseen(std::nullopt, 600s));  // Slurm has forgotten it while the launcher stood still
  CHECK_FALSE(given_back_unseen(std::nullopt, 5s));
}

TEST_CASE("a launcher that ended by itself is waited for 10 s, one that is only unreachable for 10 minutes") {
  Kept ended;
  ended.tenure.found();
  ended.tenure.lost(ended.start + 100s);
  ended.tenure.looked(ended.start + 101s, true);
  ended.tenure.heard(Submitted::runs, 0, ended.start + 110s);
  CHECK(ended.stays(115s));  // that may have been before Slurm noticed that the launcher's node is lost
  ended.tenure.heard(Submitted::runs, 0, ended.start + 111s);
  CHECK_FALSE(ended.stays(111s));
  Kept cut_off;
  cut_off.tenure.found();
  cut_off.tenure.lost(cut_off.start + 100s);
  cut_off.tenure.looked(cut_off.start + 101s, false);
  cut_off.tenure.heard(Submitted::runs, 0, cut_off.start);
  CHECK(cut_off.stays(699s));
  CHECK_FALSE(cut_off.stays(700s));
}

TEST_CASE("a base is held for 10 minutes while its submitted job waits to run again, and after it runs again") {
  Kept kept;
  kept.tenure.found();
  kept.tenure.lost(kept.start);
  kept.tenure.looked(kept.start + 1s, true);
  kept.tenure.heard(Submitted::runs, 2, kept.start);
  kept.tenure.heard(Submitted::waits, 3, kept.start);
  CHECK(kept.stays(300s));
  kept.tenure.heard(Submitted::runs, 3, kept.start);
  CHECK(kept.stays(599s));
  CHECK_FALSE(kept.stays(600s));
}

TEST_CASE("a site that holds no base without a launcher still waits for the first launcher") {
  BaseTenure tenure(BaseTenure::Time{}, false, 0ms);
  const BaseTenure::Time start{};
  CHECK(tenure.stays(start + 30s));
  tenure.found();
  CHECK(tenure.stays(start + 100s));
  tenure.lost(start + 100s);
  CHECK(!tenure.stays(start + 100s));
}

TEST_CASE("keepers of thousands of nodes do not ask Slurm in one moment after a loss") {
  BaseTenure tenure(BaseTenure::Time{}, false, std::chrono::minutes(10), {}, 4s);
  const BaseTenure::Time start{};
  tenure.found();
  tenure.lost(start + 100s);
  CHECK(!tenure.asks(start + 103s));
  CHECK(tenure.asks(start + 104s));
  CHECK(!tenure.asks(start + 130s));
  CHECK(tenure.asks(start + 134s));
}

TEST_CASE("how long a base is held without a launcher is the site's to say") {
  BaseTenure tenure(BaseTenure::Time{}, true, 60s);
  tenure.found();
  tenure.lost(BaseTenure::Time{});
  tenure.heard(Submitted::waits, 1, {});
  CHECK(tenure.stays(BaseTenure::Time{} + 59s));
  CHECK_FALSE(tenure.stays(BaseTenure::Time{} + 60s));
}

TEST_CASE(
    "an extension that no launcher has accepted in time is given back; one that was accepted is held as a base is") {
  const BaseTenure::Time start{};
  BaseTenure tenure(start, false, 60s, 5s);
  tenure.heard(Submitted::waits, 1, {});
  CHECK(tenure.stays(start + 4s));
  CHECK_FALSE(tenure.stays(start + 5s));
  tenure.found();
  tenure.lost(start + 10s);
  tenure.heard(Submitted::waits, 1, {});
  CHECK(tenure.stays(start + 69s));
  CHECK_FALSE(tenure.stays(start + 70s));
}

TEST_CASE("without slurmctld a keeper holds its node for 10 minutes") {
  Kept kept;
  kept.tenure.found();
  kept.tenure.lost(kept.start);
  kept.tenure.looked(kept.start, true);
  CHECK(kept.stays(599s));
  CHECK_FALSE(kept.stays(600s));
}

TEST_CASE("the keeper in the batch script asks Slurm every 2 s, the others every 30 s") {
  const BaseTenure::Time start{};
  for (const bool batch : {true, false}) {
    BaseTenure tenure(start, batch);
    CHECK(tenure.asks(start));
    CHECK_FALSE(tenure.asks(start + 1s));
    CHECK(tenure.asks(start + 2s) == batch);
    CHECK(tenure.asks(start + 32s));
  }
}

}  // namespace
