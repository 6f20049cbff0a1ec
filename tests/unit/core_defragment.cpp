// Moves of bases that make room for waiting jobs.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "planner/core/schedule/defragment.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/core/waiting.hpp"

namespace {

using namespace espalier;

constexpr JobId kBase = 1000;  // the base of job N is Slurm job 1000 + N

NodeView node(const std::string& name, std::vector<JobId> owners, const std::string& type = "h100") {
  NodeView view;
  view.name = name;
  view.gpu_type = type;
  view.gpu_owner = std::move(owners);
  return view;
}

std::vector<int> indices_of(const NodeView& node, JobId owner) {
  std::vector<int> indices;
  for (std::size_t i = 0; i < node.gpu_owner.size(); ++i)
    if (node.gpu_owner[i] == owner) indices.push_back(static_cast<int>(i));
  return indices;
}

// A running movable job with what the view says that its base and these extensions hold.
ElasticJob movable(JobId id, const ClusterView& view, const std::vector<JobId>& extensions = {}) {
  ElasticJob job;
  job.id = id;
  job.min_gpus = 1;
  job.max_gpus = 16;
  job.phase = JobPhase::running;
  job.model.layers = 16;
  job.model.global_batch = 16;
  std::vector<GpuId> gpus;
  for (const NodeView& one : view.nodes) {
    if (auto held = indices_of(one, kBase + id); !held.empty()) job.anchor.push_back({kBase + id, one.name, held});
    for (const JobId extension : extensions)
      if (auto held = indices_of(one, extension); !held.empty()) job.extensions.push_back({extension, one.name, held});
  }
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings)
      for (const int index : held.gpus) gpus.push_back({held.node, index});
  job.plan = uniform_plan(static_cast<int>(gpus.size()), 1, 16, 16, 4, gpus);
  return job;
}

WaitingJob waits(int gpus, int nodes = 1) {
  WaitingJob job;
  job.id = 50;
  job.gpus = gpus;
  job.nodes = nodes;
  return job;
}

// Four GPUs wait to be one node: two idle on n1 beside job 5's base, two idle on n2.
PlanningInput scattered() {
  PlanningInput input;
  input.cluster.nodes = {node("n1", {kBase + 5, kBase + 5, 0, 0}), node("n2", {9, 9, 0, 0}), node("n3", {9, 9, 9, 9})};
  input.jobs = {movable(5, input.cluster)};
  input.cluster.waiting = {waits(4)};
  return input;
}

std::vector<std::string> nodes_of(const Relief& relief) {
  std::vector<std::string> nodes;
  for (const auto& part : relief.base) nodes.push_back(part.node + ":" + std::to_string(part.gpus));
  return nodes;
}
using Nodes = std::vector<std::string>;

TEST_CASE("a base moves out of the way of a job that waits because idle GPUs are scattered") {
  const auto relief = find_relief(scattered(), {}, {{5, {}}});
  REQUIRE(relief);
  CHECK(relief->waiting == 50);
  CHECK(relief->job == 5);
  CHECK(relief->node == "n1");
  CHECK(nodes_of(*relief) == Nodes{"n2:2"});
  CHECK(relief->held == 0);
}

TEST_CASE("a base moves out of the way of a job with --exclusive, but not from a node where a job without GPUs runs") {
  PlanningInput input = scattered();
  input.cluster.waiting = {waits(1)};
  input.cluster.waiting.front().whole_nodes = true;
  const auto relief = find_relief(input, {}, {{5, {}}});
  REQUIRE(relief);
  CHECK(relief->node == "n1");
  input.cluster.nodes[0].cpu_jobs = true;
  CHECK(!find_relief(input, {}, {{5, {}}}));
}

TEST_CASE("no base moves for a job that a move does not help, or that needs none") {
  PlanningInput input = scattered();
  SUBCASE("it fits as it is") { input.cluster.waiting = {waits(2)}; }
  SUBCASE("it would need two moves") { input.cluster.waiting = {waits(8, 2)}; }
  SUBCASE("it wants other nodes") { input.cluster.waiting.front().only_nodes = {"n2"}; }
  SUBCASE("Slurm tries by itself first") { input.cluster.waiting.front().left_to_slurm = true; }
  SUBCASE("it waits for a limit") { input.counted[50] = {}; }
  SUBCASE("Slurm starts it in a moment") { input.cluster.waiting.front().expected_start = 30; }
  SUBCASE("the move costs more than it gains") {
    input.cluster.waiting.front().expected_start = 100;
    input.redeploy_seconds[5] = 1000;
  }
  SUBCASE("there is no place for the base") { input.cluster.nodes[1].gpu_owner = {9, 9, 9, 0}; }
  SUBCASE("there are only GPUs of another type") { input.cluster.nodes[1].gpu_type = "a100"; }
  SUBCASE("the job is being changed") { input.jobs.front().phase = JobPhase::acquiring; }
  CHECK(!find_relief(input, {}, {{5, {}}}));
}

TEST_CASE("a base does not move to a node that the waiting job needs, too") {
  PlanningInput input = scattered();
  input.cluster.nodes[1].gpu_owner = {0, 0, 0, 0};
  input.cluster.waiting = {waits(8, 2)};
  CHECK(!find_relief(input, {}, {{5, {}}}));
  input.cluster.nodes[2].gpu_owner = {9, 9, 0, 0};
  CHECK(nodes_of(find_relief(input, {}, {{5, {}}}).value()) == Nodes{"n3:2"});
  // It may have what the waiting job leaves there.
  input.cluster.nodes[1].gpu_owner = {0, 0, 0, 0, 0, 0};
  input.cluster.nodes[2].gpu_owner = {9, 9, 9, 9};
  CHECK(nodes_of(find_relief(input, {}, {{5, {}}}).value()) == Nodes{"n2:2"});
}

TEST_CASE("a base stays where the job may not run on the GPUs, and that of a job that cannot move too") {
  CHECK(!find_relief(scattered(), {}, {{5, {{"a100"}}}}));
  CHECK(!find_relief(scattered(), {}, {}));
  CHECK(!find_relief(scattered(), {}, {{6, {}}}));
}

TEST_CASE("under policy arena a base that finds no place on its type makes room by going to another one") {
  PlanningInput input = scattered();
  input.cluster.nodes[1].gpu_type = "a100";
  SchedulerOptions options;
  CHECK(!find_relief(input, options, {{5, {}}}));
  options.arena.emplace();
  const auto relief = find_relief(input, options, {{5, {}}});
  REQUIRE(relief);
  CHECK(nodes_of(*relief) == Nodes{"n2:2"});
  SUBCASE("but not where types= leaves it out") { CHECK(!find_relief(input, options, {{5, {{"h100"}}}})); }
  SUBCASE("nor where other GPUs could round differently under accuracy=bitwise") {
    input.jobs.front().model.setting = TrainingSetting{"espalier-train-cuda 0.1.0", "", "", "", false, false};
    CHECK(!find_relief(input, options, {{5, {}}}));
  }
  SUBCASE("nor where the site wants no moves to other types") {
    options.arena->migrate_gain = 0;
    CHECK(!find_relief(input, options, {{5, {}}}));
  }
  SUBCASE("and its own type comes first") {
    input.cluster.nodes.push_back(node("n4", {0, 0, 9, 9}));
    CHECK(nodes_of(*find_relief(input, options, {{5, {}}})) == Nodes{"n4:2"});
  }
}

TEST_CASE("extensions on both sides count as room, and the relief says how many of their GPUs must go") {
  PlanningInput input = scattered();
  input.cluster.nodes[0].gpu_owner = {kBase + 5, kBase + 5, 20, 20};
  input.cluster.nodes[1].gpu_owner = {9, 9, 21, 21};
  input.jobs = {movable(5, input.cluster, {20, 21})};
  input.extensions = {20, 21};
  const auto relief = find_relief(input, {}, {{5, {}}});
  REQUIRE(relief);
  CHECK(nodes_of(*relief) == Nodes{"n2:2"});
  CHECK(relief->held == 2);
}

TEST_CASE("of two movable jobs the one whose pause costs less moves") {
  PlanningInput input = scattered();
  input.cluster.nodes = {node("n1", {kBase + 5, kBase + 5, kBase + 6, kBase + 6}), node("n2", {9, 9, 0, 0})};
  input.cluster.nodes.push_back(node("n3", {9, 9, 0, 0}));
  input.cluster.waiting = {waits(2)};
  input.cluster.waiting.front().only_nodes = {"n1"};
  input.jobs = {movable(5, input.cluster), movable(6, input.cluster)};
  input.redeploy_seconds = {{5, 2.0}, {6, 1.0}};
  CHECK(find_relief(input, {}, {{5, {}}, {6, {}}})->job == 6);
  input.redeploy_seconds = {{5, 1.0}, {6, 2.0}};
  CHECK(find_relief(input, {}, {{5, {}}, {6, {}}})->job == 5);
}

bool is_unserved(const PlanningInput& input, JobId job) {
  const WaitingPlan plan = serve_waiting(input, {});
  return std::any_of(plan.unserved.begin(), plan.unserved.end(), [&](const Unserved& u) { return u.job.id == job; });
}

// The base of `job` is on these parts of nodes, and nothing of it is where it was. False: there is no room, even where
// extensions go.
bool move_base(PlanningInput& input, JobId job, const std::vector<ExtensionRequest>& base) {
  auto& nodes = input.cluster.nodes;
  for (const ExtensionRequest& part : base) {
    const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const NodeView& n) { return n.name == part.node; });
    int left = part.gpus;
    for (const bool held : {false, true})
      for (JobId& owner : at->gpu_owner) {
        const bool extension = std::binary_search(input.extensions.begin(), input.extensions.end(), owner);
        if (left == 0 || !(held ? extension : owner == 0)) continue;
        owner = kBase + 500;
        --left;
      }
    if (left > 0) return false;
  }
  for (NodeView& one : nodes)
    for (JobId& owner : one.gpu_owner) {
      if (owner == kBase + job) owner = 0;
      if (owner == kBase + 500) owner = kBase + job;
    }
  for (ElasticJob& one : input.jobs) {
    std::vector<JobId> extensions;
    for (const Holding& held : one.extensions) extensions.push_back(held.job);
    one = movable(one.id, input.cluster, extensions);
  }
  return true;
}

TEST_CASE(
    "property: a relief lets the job start and nobody else wait; where a move to one node would help, there is one") {
  std::mt19937 random(20261124);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int found = 0, none = 0;
  for (int round = 0; round < 3000; ++round) {
    PlanningInput input;
    const int number = 2 + below(4);
    for (int i = 0; i < number; ++i) {
      std::vector<JobId> owners;
      // Anything: idle, another's, a base, an extension. A base lies on one node, an extension too.
      for (int g = 0; g < 4; ++g) {
        const int kind = below(6);
        const auto of_node = static_cast<JobId>(i);
        owners.push_back(kind < 2 ? 0 : kind == 2 ? 9 : kind < 5 ? kBase + 1 + of_node : 200 + of_node);
      }
      input.cluster.nodes.push_back(node("n" + std::to_string(i), owners));
    }
    std::vector<MovableJob> all;
    for (int i = 0; i < number; ++i) {
      const auto id = static_cast<JobId>(1 + i);
      const bool has_base = !indices_of(input.cluster.nodes[static_cast<std::size_t>(i)], kBase + id).empty();
      if (!has_base) continue;
      // Its extension is on the next node.
      input.jobs.push_back(movable(id, input.cluster, {200 + static_cast<JobId>((i + 1) % number)}));
      for (const Holding& held : input.jobs.back().extensions) input.extensions.push_back(held.job);
      all.push_back({id, {}});
    }
    std::sort(input.extensions.begin(), input.extensions.end());
    const int parts = 1 + below(2);
    input.cluster.waiting = {waits(parts * (1 + below(4)), parts)};
    if (below(2) == 0) {
      WaitingJob first = waits(1 + below(4));
      first.id = 49;
      first.priority = 5;
      input.cluster.waiting.push_back(first);
    }
    const auto relief = find_relief(input, {}, all);
    if (relief) {
      ++found;
      PlanningInput after = input;
      REQUIRE(move_base(after, relief->job, relief->base));
      // Where two wait, the other one may take the room: a later decision sees it.
      const auto unserved = [](const PlanningInput& one) { return serve_waiting(one, {}).unserved.size(); };
      CHECK(unserved(after) <= unserved(input));
      if (input.cluster.waiting.size() == 1) CHECK(unserved(after) == 0);
      continue;
    }
    ++none;
    // With one waiting job alone no choice among several is to be made, and each possible move can be tried.
    if (input.cluster.waiting.size() > 1 || !is_unserved(input, 50)) continue;
    for (const MovableJob& one : all)
      for (const NodeView& target : input.cluster.nodes) {
        PlanningInput after = input;
        const auto job =
            std::find_if(input.jobs.begin(), input.jobs.end(), [&](const auto& j) { return j.id == one.id; });
        if (target.name == job->anchor.front().node) continue;
        const int gpus = static_cast<int>(job->anchor.front().gpus.size());
        if (!move_base(after, one.id, {{.node = target.name, .gpus = gpus}})) continue;
        INFO("job " << one.id << " could move to " << target.name);
        CHECK(is_unserved(after, 50));
      }
  }
  CHECK(found > 50);
  CHECK(none > 50);
}

}  // namespace
