#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "planner/core/waiting.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {
ElasticJob grown() {
  auto result = job(10, "n1", {0, 1});
  extend(result, 20, "n1", {2, 3});
  extend(result, 21, "n2", {0, 1});
  extend(result, 22, "n2", {2});
  deepen(result, 60);  // enough layers to use any number of GPUs
  return result;
}
}  // namespace

TEST_CASE("a waiting job keeps the idle GPUs that it can use") {
  auto input = input_of({node("n1", 2), node("n2", 4)}, {job(10, "n1", {0, 1})});
  input.cluster.waiting = {{30, 4, 1, {}, {}}};
  CHECK(decide(input).empty());
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  const auto d = decide(input).at(0);  // the rest may be taken
  CHECK(d.acquire.at(0).gpus == 2);
}

TEST_CASE("GPUs that a waiting job cannot have yet are lent until before its start") {
  auto input = input_of({node("n1", 2), node("n2", 4), node("n3", 4)}, {job(10, "n1", {0, 1}, 4)});
  hold(input.cluster, {77, "n3", {0, 1, 2, 3}});
  input.cluster.waiting = {{30, 8, 2, {}, input.now + 600}};
  const auto d = decide(input).at(0);
  CHECK(d.acquire.at(0).lease_minutes == 8);  // 600 s - 30 s - 60 s, whole minutes
  input.cluster.waiting = {{30, 8, 2, {}, {}}};
  CHECK(decide(input).empty());  // its start is unknown
  input.cluster.waiting = {{30, 8, 2, {}, input.now + 100}};
  CHECK(decide(input).empty());
}

TEST_CASE("a job that Slurm starts later all the same keeps no GPUs, and takes none back") {
  auto input = input_of({node("n1", 2), node("n2", 4)}, {job(10, "n1", {0, 1}, 4)});
  input.cluster.waiting = {{30, 4, 1, {}, input.now + 3 * 3600}};
  CHECK(decide(input).empty());  // n2 is kept for it
  input.cluster.waiting.front().starts_later = true;
  REQUIRE(decide(input).size() == 1);
  CHECK(decide(input).at(0).acquire.at(0).lease_minutes == 60);
  input.cluster.waiting.front().expected_start = input.now + 600;
  CHECK(decide(input).at(0).acquire.at(0).lease_minutes == 8);

  auto full = input_of({node("n1", 4), node("n2", 3)}, {grown()});
  full.cluster.waiting = {{30, 2, 1, {}, full.now + 3 * 3600}};
  CHECK(decide(full).at(0).kind == DecisionKind::shrink);
  full.cluster.waiting.front().starts_later = true;
  CHECK(decide(full).empty());
}

TEST_CASE("a job that starts later since no node has the room is unserved, so that room is made for it") {
  auto input = input_of({node("n1", 4), node("n2", 4)}, {job(10, "n1", {0, 1})});
  hold(input.cluster, {77, "n2", {0, 1}});
  input.cluster.waiting = {{30, 4, 1, {}, input.now + 3 * 3600}};
  input.cluster.waiting.front().starts_later = true;
  CHECK(serve_waiting(input, {}).unserved.size() == 1);
  input.cluster.waiting.front().gpus = 2;
  CHECK(serve_waiting(input, {}).unserved.empty());
}

TEST_CASE("a job whose start Slurm does not tell keeps nobody from GPUs that Slurm would take back for it") {
  auto input = input_of({node("n1", 2), node("n2", 4)}, {job(10, "n1", {0, 1}, 4)});
  input.cluster.waiting = {{30, 8, 2, {}, {}}};
  CHECK(decide(input).empty());
  input.cluster.waiting.front().slurm_preempts = true;
  REQUIRE(decide(input).size() == 1);
  CHECK(decide(input).at(0).acquire.at(0).lease_minutes == 60);
  input.cluster.waiting.front().left_to_slurm = true;  // which is about to choose extensions
  CHECK(decide(input).empty());
}

TEST_CASE("a lease is whole minutes, at most the site's, and none when there is no time") {
  SchedulerOptions options;
  CHECK(lease_before(0, 149, options) == 0);
  CHECK(lease_before(0, 150, options) == 1);
  CHECK(lease_before(0, 1e9, options) == 60);
  CHECK(lease_before(0, -5, options) == 0);
}

TEST_CASE("the fewest extensions go that let a waiting job start, the far ones first") {
  auto input = input_of({node("n1", 4), node("n2", 3)}, {grown()});
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  auto d = decide(input).at(0);
  CHECK(d.kind == DecisionKind::shrink);
  CHECK(d.release == std::vector<JobId>{21});
  CHECK(validate(d.plan, 60).empty());
  for (const GpuId& gpu : d.plan.ranks()) CHECK_FALSE(gpu == GpuId{"n2", 0});
  input.cluster.waiting = {{30, 3, 1, {}, {}}};
  CHECK(decide(input).at(0).release == std::vector<JobId>{21, 22});
  input.cluster.waiting = {{30, 1, 1, {}, {}}};
  CHECK(decide(input).at(0).release == std::vector<JobId>{22});
}

TEST_CASE(
    "what Slurm is about to preempt for a new job itself is not asked for at the same time, and not lent either") {
  auto input = input_of({node("n1", 4), node("n2", 4)}, {grown()});
  input.cluster.waiting = {{30, 2, 1, {}, {}, 0, true}};  // one GPU of n2 is idle
  CHECK(decide(input).empty());
  input.cluster.waiting = {{30, 1, 1, {}, {}, 0, true}};  // it fits, so Slurm preempts nothing
  CHECK(decide(input).empty());
  input.cluster.waiting = {{30, 2, 1, {}, {}, 0, false}};
  CHECK(decide(input).at(0).release == std::vector<JobId>{22});
}

TEST_CASE("an extension without which no plan is known goes last, however small it is") {
  auto input = input_of({node("n1", 4), node("n2", 3)}, {grown()});
  input.cluster.waiting = {{30, 1, 1, {"n2"}, {}}};
  CHECK(serve_waiting(input, {}, {{20, 1}, {21, 0.5}, {22, 0.6}}).reclaims.at(10).extensions == std::vector<JobId>{22});
  CHECK(serve_waiting(input, {}, {{20, 1}, {21, 0.5}}).reclaims.at(10).extensions == std::vector<JobId>{21});
}

TEST_CASE("required nodes and node counts of the waiting job are honoured") {
  auto input = input_of({node("n1", 4), node("n2", 3)}, {grown()});
  input.cluster.waiting = {{30, 2, 1, {"n1"}, {}}};
  CHECK(decide(input).at(0).release == std::vector<JobId>{20});
  input.cluster.waiting = {{30, 2, 2, {}, {}}};
  CHECK(decide(input).at(0).release == std::vector<JobId>{20, 22});
  input.cluster.waiting = {{30, 2, 1, {"n9"}, {}}};
  CHECK(decide(input).empty());
}

TEST_CASE("a job that could not start even so takes nothing") {
  auto input = input_of({node("n1", 4), node("n2", 3)}, {grown()});
  input.cluster.waiting = {{30, 4, 1, {}, {}}};  // n1 has four, but two of them are the anchor's
  CHECK(decide(input).empty());
}

TEST_CASE("GPUs that are about to be idle spare the extensions") {
  auto input = input_of({node("n1", 4), node("n2", 3), node("n3", 2)}, {grown()});
  hold(input.cluster, {77, "n3", {0, 1}});
  input.cluster.nodes[2].freeing = {0, 1};
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  CHECK(decide(input).empty());
}

TEST_CASE("a held job still gives back") {
  auto held = grown();
  held.held = true;
  auto input = input_of({node("n1", 4), node("n2", 3)}, {held});
  input.last_change[10] = input.now;  // the cooldown does not matter either
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  CHECK(decide(input).size() == 1);
}

TEST_CASE("of two waiting jobs the one with the higher priority is served") {
  auto input = input_of({node("n1", 4)}, {[] {
                          auto one = job(10, "n1", {0, 1});
                          extend(one, 20, "n1", {2, 3});
                          return one;
                        }()});
  input.cluster.waiting = {{30, 2, 1, {}, {}, 1}, {31, 2, 1, {}, {}, 5}};
  CHECK(decide(input).at(0).reason.starts_with("job 31 waits"));
  input.cluster.waiting = {{30, 2, 1, {}, {}, 5}, {31, 2, 1, {}, {}, 5}};
  CHECK(decide(input).at(0).reason.starts_with("job 30 waits"));
}

TEST_CASE("what brings least goes first, wherever it is") {
  auto poor = job(10, "n3", {0, 1, 2, 3});
  extend(poor, 20, "n4", {0, 1});  // six stages of eight layers are hardly faster than four
  auto rich = job(11, "n1", {0});
  extend(rich, 21, "n2", {0, 1});
  auto input = input_of({node("n1", 1), node("n2", 2), node("n3", 4), node("n4", 2)}, {poor, rich});
  input.cluster.waiting = {{30, 2, 1, {}, {}}};
  const auto decisions = decide(input);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].job == 10);
  CHECK(decisions[0].release == std::vector<JobId>{20});
  auto options = bold();
  options.discount = [](const ElasticJob& one) { return one.id == 11 ? 0.0 : 1.0; };
  poor.plan = uniform_plan(6, 1, 48, 4, 4, poor.plan->ranks());
  poor.model.layers = 48;
  input.jobs[0] = poor;
  CHECK(decide(input, options).at(0).job == 11);
}

TEST_CASE("of many extensions the oldest are worth something too") {
  auto poor = job(10, "n1", {0, 1, 2, 3});
  extend(poor, 20, "n4", {0, 1});  // six stages of eight layers are hardly faster than four
  auto rich = job(11, "n2", {0, 1}, 30);
  deepen(rich, 60);
  extend(rich, 21, "n4", {2, 3});
  for (int gpu = 0; gpu < 10; ++gpu) extend(rich, static_cast<JobId>(22 + gpu), "n3", {gpu});
  auto input = input_of({node("n1", 4), node("n2", 2), node("n3", 10), node("n4", 4)}, {poor, rich});
  input.cluster.waiting = {{30, 2, 1, {"n4"}, {}}};
  const auto d = decide(input).at(0);
  CHECK(d.job == 10);
  CHECK(d.release == std::vector<JobId>{20});
}

TEST_CASE("an extension that the smaller plan has no use for goes as well") {
  auto wide = job(10, "n1", {0, 1});
  extend(wide, 20, "n2", {0, 1});
  extend(wide, 22, "n4", {0, 1});
  wide.plan = uniform_plan(3, 1, 8, 4, 4, wide.plan->ranks(), 2);
  // Bitwise keeps TP degree 2 everywhere. One GPU cannot form such a group.
  wide.extensions.push_back({21, "n3", {0}});
  auto input = input_of({node("n1", 2), node("n2", 2), node("n3", 1), node("n4", 2)}, {wide});
  input.cluster.waiting = {{30, 1, 1, {"n2"}, {}}};
  const auto d = decide(input).at(0);
  CHECK(d.plan.stages.size() == 2);
  CHECK(d.release == std::vector<JobId>{20, 21});
}

TEST_CASE(
    "of extensions on one node of which the smaller plan needs some, those without state go first, then the newest") {
  auto wide = job(10, "n1", {0, 1});
  extend(wide, 20, "n2", {0, 1});
  wide.extensions.push_back({22, "n3", {1}});
  wide.extensions.push_back({23, "n3", {2}});
  auto ranks = wide.plan->ranks();
  ranks.insert(ranks.end(), {{"n3", 1}, {"n3", 2}});
  wide.plan = uniform_plan(3, 1, 8, 4, 4, ranks, 2);
  // Bitwise keeps TP degree 2 everywhere. One of n3's GPUs is left over.
  wide.extensions.push_back({21, "n3", {0}});
  auto input = input_of({node("n1", 2), node("n2", 2), node("n3", 3)}, {wide});
  input.cluster.waiting = {{30, 1, 1, {"n2"}, {}}};
  const auto d = decide(input).at(0);
  CHECK(d.plan.gpu_count() == 4);
  CHECK(d.release == std::vector<JobId>{20, 21});
}

TEST_CASE("two GPUs are not taken back where one suffices, though each of the two brings less") {
  auto one = job(10, "n1", {0});
  deepen(one, 60);
  extend(one, 20, "n1", {1});
  extend(one, 21, "n1", {2, 3});  // each of these two brings less than the second GPU did
  auto input = input_of({node("n1", 4)}, {one});
  input.cluster.waiting = {{30, 1, 1, {}, {}}};
  CHECK(decide(input).at(0).release == std::vector<JobId>{20});
  auto printed = bold();
  printed.as_printed = true;
  CHECK(decide(input, printed).at(0).release == std::vector<JobId>{21});
}

TEST_CASE("the set that is taken back on a node has the lowest loss of all that suffice") {
  // Compared with all subsets, for random extensions and values.
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + static_cast<int>(random() % 6);
    NodeView where = node("n9", 24);
    auto input = input_of({node("n1", 4), where}, {});
    std::map<JobId, double> worth;
    auto& owner = input.jobs.emplace_back(job(10, "n1", {0}));
    int gpu = 0;
    for (int i = 0; i < count; ++i) {
      Holding held{static_cast<JobId>(20 + i), "n9", {}};
      for (int size = 1 + static_cast<int>(random() % 4); size > 0; --size) held.gpus.push_back(gpu++);
      worth[held.job] = static_cast<double>(random() % 5) / 4;
      hold(input.cluster, held);
      owner.extensions.push_back(held);
    }
    hold(input.cluster, {77, "n1", {1, 2, 3}});
    for (int rest = gpu; rest < 24; ++rest) hold(input.cluster, {77, "n9", {rest}});
    const int need = 1 + static_cast<int>(random() % static_cast<unsigned>(gpu));
    input.cluster.waiting = {{30, need, 1, {"n9"}, {}}};
    std::tuple<double, std::size_t, int> best{1e9, 0, 0};
    const auto sum = [&](const auto& takes) {
      std::tuple<double, std::size_t, int> key{0, 0, 0};
      for (const Holding& held : owner.extensions)
        if (takes(held.job)) {
          std::get<0>(key) += worth[held.job] * static_cast<double>(held.gpus.size());
          ++std::get<1>(key);
          std::get<2>(key) += static_cast<int>(held.gpus.size());
        }
      return key;
    };
    for (unsigned set = 1; set < 1u << count; ++set) {
      const auto key = sum([&](JobId id) { return (set >> (id - 20) & 1) != 0; });
      if (std::get<2>(key) >= need) best = std::min(best, key);
    }
    const auto served = serve_waiting(input, {}, worth);
    const auto& taken = served.reclaims.at(10).extensions;
    CHECK(sum([&](JobId id) { return std::find(taken.begin(), taken.end(), id) != taken.end(); }) == best);
  }
}

TEST_CASE("a job that waits for a limit gets extensions that count against it back, on whatever nodes") {
  auto input = input_of({node("n1", 4), node("n2", 3), node("n3", 4)}, {grown()});
  WaitingJob limited{30, 2, 1, {}, {}};
  input.counted[30] = {20, 22};
  input.cluster.waiting = {limited};
  auto d = decide(input).at(0);
  CHECK(d.kind == DecisionKind::shrink);
  // Idle GPUs of n3 would not help it. 22 is worth no more than 20 is, and has too few GPUs alone.
  for (const JobId id : d.release) CHECK((id == 20 || id == 22));
  int gpus = 0;
  for (const JobId id : d.release) gpus += id == 22 ? 1 : 2;
  CHECK(gpus >= 2);
  CHECK(d.reason.find("job 30 waits for a limit of the site that extensions use up") == 0);
  limited.gpus = 100;  // more than there is: all that counts goes, and nothing else
  input.cluster.waiting = {limited};
  d = decide(input).at(0);
  CHECK(d.release == std::vector<JobId>{20, 22});
  input.counted[30] = {99};
  for (const Decision& other : decide(input)) CHECK(other.kind != DecisionKind::shrink);
}

TEST_CASE("a node on which a waiting job may not run does not say how many GPUs it gets on one node") {
  auto input = input_of({node("big", 8, "leaf1", "h100"), node("n1", 4), node("n2", 4)}, {[] {
                          auto one = job(10, "n1", {0});
                          deepen(one, 60);
                          extend(one, 20, "n2", {0});
                          return one;
                        }()});
  hold(input.cluster, {77, "big", {0, 1, 2, 3, 4, 5, 6, 7}});
  // Six GPUs of nodes that have four each: three on each of two.
  input.cluster.waiting = {{30, 6, 1, {"n1", "n2"}, {}}};
  const auto served = serve_waiting(input, {});
  CHECK(served.unserved.empty());
  CHECK(served.reclaims.empty());  // three are idle on n1 and on n2 without any
}

TEST_CASE("the waiting tasks of an array are served in one decision, up to the first that does not fit") {
  auto input = input_of({node("n1", 4), node("n2", 3)}, {grown()});
  WaitingJob array{30, 1, 1, {}, {}};
  array.tasks = 3;
  input.cluster.waiting = {array};
  const auto served = serve_waiting(input, {}, {{20, 3}, {21, 2}, {22, 1}});
  CHECK(served.reclaims.at(10).extensions == std::vector<JobId>{21, 22});
  CHECK(served.reclaims.at(10).waiting == std::vector<JobId>{30});
  CHECK(served.unserved.empty());
  const auto decisions = decide(input);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].release == std::vector<JobId>{21, 22});
  CHECK(decisions[0].reason.starts_with("job 30 waits"));
  input.cluster.waiting[0].tasks = 100;  // five GPUs are lent; the rest counts once
  const auto all = serve_waiting(input, {});
  CHECK(all.reclaims.at(10).extensions == std::vector<JobId>{20, 21, 22});
  CHECK(all.unserved.size() == 1);
  CHECK(all.unserved.at(0).each == 1);
}

TEST_CASE("an array takes as many idle GPUs as its tasks need, like so many jobs do") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    auto input = input_of({node("n1", 4), node("n2", 6), node("n3", 5)}, {job(10, "n1", {0})});
    for (const int gpu : {0, 1, 2})
      if (random() % 2 == 0) hold(input.cluster, {77, "n2", {gpu}});
    const int gpus = 1 + static_cast<int>(random() % 3), nodes = 1 + static_cast<int>(random() % 2),
              tasks = 1 + static_cast<int>(random() % 6);
    WaitingJob one{30, gpus, std::min(nodes, gpus), {}, {}};
    one.tasks = tasks;
    input.cluster.waiting = {one};
    const auto array = serve_waiting(input, {});
    input.cluster.waiting.clear();
    one.tasks = 1;
    for (int task = 0; task < tasks; ++task, ++one.id) input.cluster.waiting.push_back(one);
    const auto jobs = serve_waiting(input, {});
    REQUIRE(array.supplies.size() == jobs.supplies.size());
    for (std::size_t i = 0; i < array.supplies.size(); ++i) {
      CHECK(array.supplies[i].gpus == jobs.supplies[i].gpus);
      CHECK(array.supplies[i].lease_minutes == jobs.supplies[i].lease_minutes);
    }
    CHECK(array.unserved.empty() == jobs.unserved.empty());
  }
}

TEST_CASE("an array that is left to Slurm takes what is idle, and no extension leaves for it") {
  auto input = input_of({node("n1", 4), node("n2", 4)}, {grown()});
  WaitingJob array{30, 1, 1, {}, {}, 0, true};
  array.tasks = 5;
  input.cluster.waiting = {array};
  const auto served = serve_waiting(input, {});
  CHECK(served.reclaims.empty());
  CHECK(served.unserved.empty());
  for (const Supply& supply : served.supplies) CHECK(supply.gpus.empty());  // the one idle GPU is kept for it
}

TEST_CASE("thousands of waiting jobs on thousands of nodes are served in a moment") {
  constexpr int kNodes = 2048, kWaiting = 5000;
  std::vector<NodeView> nodes;
  std::vector<std::string> names;
  for (int n = 0; n < kNodes; ++n) {
    names.push_back("n" + std::to_string(10000 + n));
    nodes.push_back(node(names.back(), 8));
    std::fill(nodes.back().gpu_owner.begin(), nodes.back().gpu_owner.end(), JobId{1});
  }
  auto input = input_of(std::move(nodes), {job(10, names.front(), {0, 1})});
  const NodeList all = names;
  for (int w = 0; w < kWaiting; ++w)
    input.cluster.waiting.push_back({static_cast<JobId>(100 + w), 8, 1, all, {}, static_cast<double>(w)});
  const auto begin = std::chrono::steady_clock::now();
  const WaitingPlan plan = serve_waiting(input, {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(plan.unserved.size() == kWaiting);
  CHECK(plan.unserved.front().job.only_nodes.identity() == all.identity());
  MESSAGE("5,000 jobs on 2,048 nodes: ", seconds, " s");
  CHECK(seconds < 20);
}
