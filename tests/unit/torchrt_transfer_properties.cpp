#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "planner/core/error.hpp"
#include "tests/bench/planner/transfer_bound.hpp"
#include "tests/unit/torchrt_transfer_cases.hpp"
#include "tests/unit/torchrt_transfer_rehearsal.hpp"
#include "torchrt/handoff/exchange.hpp"
#include "torchrt/handoff/gpu_reach.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

Memories state_of(const Elements& elements, const GenerationLayout& generation, bool old) {
  Memories memories;
  for (std::size_t r = 0; r < generation.layout.ranks.size(); ++r)
    for (const int unit : generation.layout.ranks[r].units)
      memories[{old, static_cast<int>(r), unit}] = elements.state(generation, static_cast<int>(r), unit);
  return memories;
}

// Counts, element by element, the bytes that a node needs and does not hold. -1: some element is
// lost.
std::int64_t counted_bound(const Elements& elements, const TransferRequest& request, int layers) {
  const GenerationLayout old = before(request, layers), next = after(request, layers);
  std::map<std::string, std::vector<bool>> held;
  std::vector<bool> somewhere(static_cast<std::size_t>(elements.count()), false);
  const auto see_all = [&](const GenerationLayout& generation, const Plan& plan, bool skip_lost, const auto& see) {
    const std::vector<GpuId> gpus = plan.ranks();
    for (std::size_t r = 0; r < gpus.size(); ++r) {
      if (skip_lost && std::count(request.lost.begin(), request.lost.end(), static_cast<int>(r)) != 0) continue;
      std::vector<bool>& node = held[gpus[r].node];
      node.resize(somewhere.size(), false);
      for (const int unit : generation.layout.ranks[r].units) {
        if (skip_lost && std::count(request.torn.begin(), request.torn.end(), std::pair(static_cast<int>(r), unit)))
          continue;
        elements.each(generation, static_cast<int>(r), unit, [&](std::int64_t number, std::size_t, std::size_t bytes) {
          see(node, static_cast<std::size_t>(number), bytes);
        });
      }
    }
  };
  see_all(old, request.before, true, [&](std::vector<bool>& node, std::size_t number, std::size_t) {
    node[number] = true;
    somewhere[number] = true;
  });
  std::int64_t bytes = 0;
  bool lost = false;
  see_all(next, request.after, false, [&](std::vector<bool>& node, std::size_t number, std::size_t size) {
    if (!node[number]) bytes += static_cast<std::int64_t>(size);
    node[number] = true;
    lost = lost || !somewhere[number];
  });
  return lost ? -1 : bytes;
}

// Counts the bytes that only leaving nodes hold and only new nodes need. These cross once more than
// the others.
std::int64_t counted_relays(const Elements& elements, const TransferRequest& request, int layers,
                            const std::set<std::string>& shared) {
  std::vector<bool> near(static_cast<std::size_t>(elements.count()), false), seen = near;
  std::int64_t bytes = 0;
  const auto see = [&](const GenerationLayout& generation, const Plan& plan, bool here, const auto& act) {
    const std::vector<GpuId> gpus = plan.ranks();
    for (std::size_t r = 0; r < gpus.size(); ++r)
      if ((shared.count(gpus[r].node) != 0) == here)
        for (const int unit : generation.layout.ranks[r].units)
          elements.each(generation, static_cast<int>(r), unit, [&](std::int64_t number, std::size_t, std::size_t size) {
            act(static_cast<std::size_t>(number), size);
          });
  };
  const auto mark = [&](std::size_t number, std::size_t) { near[number] = true; };
  see(before(request, layers), request.before, true, mark);
  see(after(request, layers), request.after, true, mark);
  see(after(request, layers), request.after, false, [&](std::size_t number, std::size_t size) {
    if (!near[number] && !seen[number]) bytes += static_cast<std::int64_t>(size);
    seen[number] = true;
  });
  return bytes;
}

// Which of three jobs or islands each GPU of the request's plans belongs to; some belong to none.
wire::GpuJobs random_islands(std::mt19937& random, const TransferRequest& request) {
  wire::GpuJobs islands;
  for (const Plan* const plan : {&request.before, &request.after})
    for (const GpuId& gpu : plan->ranks())
      if (const unsigned drawn = static_cast<unsigned>(random() % 4); drawn > 0)
        islands[gpu.node + "/" + std::to_string(gpu.index)] = drawn;
  return islands;
}

bool has_group_apart(const Plan& plan) {
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas)
      for (const GpuId& gpu : replica.gpus)
        if (gpu.node != replica.gpus.front().node) return true;
  return false;
}

}  // namespace

TEST_CASE("any generation turns into any other: its state is as if it had been there from the start") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const ModelConfig model = random_transfer_model(random);
    const TransferRequest request = random_request(random, model.layers);
    CAPTURE(round);
    CAPTURE(describe(request.before));
    CAPTURE(describe(request.after));
    const Elements elements(model, request.dtype);
    const TransferPlan plan(model, request);
    const Memories old = state_of(elements, before(request, model.layers), true);
    const Memories expected = state_of(elements, after(request, model.layers), false);
    Memories memories = old;
    const std::vector<std::string> problems = rehearse(plan, request, memories, random);
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (const auto& [memory, bytes] : expected) REQUIRE(memories.at(memory) == bytes);
    for (const auto& [memory, bytes] : old) REQUIRE(memories.at(memory) == bytes);
    CHECK(memories.size() == old.size() + expected.size());
    CHECK(plan.bytes_sent() == counted_bound(elements, request, model.layers));
    CHECK(plan.bytes_sent() == bench::least_bytes_between_nodes(model, request));
    std::int64_t sent = 0;
    for (const Message& message : plan.messages()) {
      sent += static_cast<std::int64_t>(message.piece.bytes);
      CHECK(message.piece.bytes <= request.message_bytes);
    }
    CHECK(sent == plan.bytes_sent());
  }
}

TEST_CASE("GPUs of one node, also of one TP group, need not reach each other's memory") {
  std::mt19937 random(15);
  int apart = 0;
  for (int round = 0; round < 100; ++round) {
    const ModelConfig model = random_transfer_model(random);
    TransferRequest request = random_request(random, model.layers);
    request.gpu_memory = true;
    const wire::GpuJobs islands = random_islands(random, request);
    request.before = as_reached(request.before, DeviceKind::cuda, islands);
    request.after = as_reached(request.after, DeviceKind::cuda, islands);
    apart += has_group_apart(request.before) || has_group_apart(request.after);
    CAPTURE(round);
    CAPTURE(describe(request.before));
    CAPTURE(describe(request.after));
    const Elements elements(model, request.dtype);
    const TransferPlan plan(model, request);
    Memories memories = state_of(elements, before(request, model.layers), true);
    const std::vector<std::string> problems = rehearse(plan, request, memories, random);
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (const auto& [memory, bytes] : state_of(elements, after(request, model.layers), false))
      REQUIRE(memories.at(memory) == bytes);
    CHECK(plan.bytes_sent() == counted_bound(elements, request, model.layers));
  }
  CHECK(apart > 20);
}

TEST_CASE("in two worlds what is donated lands on nodes of both, and only what no other node has is relayed") {
  std::mt19937 random(13);
  int relayed = 0, landed = 0, refused = 0, stayed = 0;
  for (int round = 0; round < 200; ++round) {
    const ModelConfig model = random_transfer_model(random);
    TransferRequest request = random_request(random, model.layers);
    request.two_worlds = true;
    CAPTURE(describe(request.before));
    CAPTURE(describe(request.after));
    const Elements elements(model, request.dtype);
    const TransferPlan plan(model, request);
    CHECK(plan.bytes_sent() == bench::least_bytes_between_nodes(model, request));
    std::set<std::string> old_nodes, shared;
    for (const GpuId& gpu : request.before.ranks()) old_nodes.insert(gpu.node);
    for (const GpuId& gpu : request.after.ranks())
      if (old_nodes.count(gpu.node) != 0) shared.insert(gpu.node);
    if (shared.empty()) {
      CHECK_THROWS_WITH_AS(make_routes(plan, request), doctest::Contains("share no node"), Error);
      ++refused;
      continue;
    }
    Memories memories = state_of(elements, before(request, model.layers), true);
    const std::vector<std::string> problems = rehearse(plan, request, memories, random);
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (const auto& [memory, bytes] : state_of(elements, after(request, model.layers), false))
      REQUIRE(memories.at(memory) == bytes);
    const Routes routes = make_routes(plan, request);
    std::int64_t sent = 0, crossed = 0;
    for (const Message& message : routes.old_world) sent += static_cast<std::int64_t>(message.piece.bytes);
    for (const Message& message : routes.new_world) sent += static_cast<std::int64_t>(message.piece.bytes);
    for (const std::size_t bytes : routes.relay_bytes) crossed += static_cast<std::int64_t>(bytes);
    CHECK(sent == plan.bytes_sent() + crossed);
    CHECK(crossed == counted_relays(elements, request, model.layers, shared));
    if (!leaves_nodes(request.before, request.after)) {
      CHECK(routes.old_world.empty());
      ++stayed;
    }
    landed += !routes.old_world.empty();
    relayed += crossed > 0;
  }
  CHECK(landed > 20);
  CHECK(relayed > 5);
  CHECK(refused > 5);
  CHECK(stayed > 5);
}

TEST_CASE("in both worlds of a hand-off ranks that are to be connected name each other, and nobody names itself") {
  std::mt19937 random(13);
  int pairs = 0;
  for (int round = 0; round < 100; ++round) {
    const ModelConfig model = random_transfer_model(random);
    TransferRequest request = random_request(random, model.layers);
    request.two_worlds = true;
    if (!share_a_node(request)) continue;  // no hand-off is possible
    const TransferPlan plan(model, request);
    const Routes routes = make_routes(plan, request);
    for (const bool old : {true, false}) {
      std::set<std::pair<int, int>> named;
      for (int rank = 0; rank < (old ? request.before : request.after).gpu_count(); ++rank)
        for (const auto& [lane, list] :
             peers(message_operations(plan, old ? routes.old_world : routes.new_world, rank)))
          for (const int peer : list) named.emplace(rank, peer);
      for (const auto& [rank, peer] : named) {
        REQUIRE(rank != peer);
        REQUIRE(named.count({peer, rank}) == 1);
        ++pairs;
      }
    }
  }
  CHECK(pairs > 100);
}

TEST_CASE("what is lost on some ranks is had from others, and missed only when nobody has it") {
  std::mt19937 random(12);
  int missed = 0, had = 0;
  for (int round = 0; round < 100; ++round) {
    const ModelConfig model = random_transfer_model(random);
    TransferRequest request = random_request(random, model.layers);
    for (int rank = 0; rank < request.before.gpu_count(); ++rank)
      if (random() % 6 == 0) request.lost.push_back(rank);
    const GenerationLayout old = before(request, model.layers);
    for (int rank = 0; rank < request.before.gpu_count(); ++rank)
      for (const int unit : old.layout.ranks[static_cast<std::size_t>(rank)].units)
        if (round % 2 == 0 && random() % 10 == 0) request.torn.emplace_back(rank, unit);
    CAPTURE(describe(request.before));
    CAPTURE(describe(request.after));
    const Elements elements(model, request.dtype);
    const std::int64_t bound = counted_bound(elements, request, model.layers);
    if (bound < 0) {
      CHECK_THROWS_WITH_AS(TransferPlan(model, request), doctest::Contains("resume from a checkpoint"), Error);
      ++missed;
      continue;
    }
    ++had;
    const TransferPlan plan(model, request);
    Memories memories = state_of(elements, before(request, model.layers), true);
    for (auto& [memory, bytes] : memories)
      if (std::count(request.lost.begin(), request.lost.end(), memory.rank) != 0 ||
          std::count(request.torn.begin(), request.torn.end(), std::pair(memory.rank, memory.unit)) != 0)
        bytes.assign(bytes.size(), 77);
    const std::vector<std::string> problems = rehearse(plan, request, memories, random);
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (const auto& [memory, bytes] : state_of(elements, after(request, model.layers), false))
      REQUIRE(memories.at(memory) == bytes);
    CHECK(plan.bytes_sent() == bound);
    if (request.torn.empty()) CHECK(plan.bytes_sent() == bench::least_bytes_between_nodes(model, request));
  }
  CHECK(missed > 5);
  CHECK(had > 5);
}
