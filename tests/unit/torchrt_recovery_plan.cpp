// The remains of a lost generation become the state of any new one.
#include <doctest/doctest.h>

#include <set>

#include "tests/unit/torchrt_tiny_model.hpp"
#include "tests/unit/torchrt_transfer_cases.hpp"
#include "tests/unit/torchrt_transfer_rehearsal.hpp"
#include "torchrt/recovery/partners.hpp"
#include "torchrt/recovery/recovery_plan.hpp"

using namespace espalier;
using namespace espalier::torchrt;

TEST_CASE("whatever is lost: the new ranks have the state of the step chosen, as if they had done it") {
  std::mt19937 random(31);
  int generations = 0, snapshots = 0;
  for (int round = 0; round < 150; ++round) {
    Config config;
    config.model = random_transfer_model(random);
    config.training.zero1 = random() % 2 == 0;
    config.training.dtype = random() % 2 == 0 ? DataType::float32 : DataType::bfloat16;
    const DeviceKind device = random() % 2 == 0 ? DeviceKind::cpu : DeviceKind::cuda;
    const Plan lost = random_transfer_plan(random, config.model.layers);
    const Plan after = random_transfer_plan(random, config.model.layers);
    const GenerationLayout old{make_layout(lost, config.model.layers), config.training.zero1};
    const GenerationLayout next{make_layout(after, config.model.layers), config.training.zero1};
    CAPTURE(round);
    CAPTURE(describe(lost));
    CAPTURE(describe(after));
    // Only nodes of the new plan are asked. Some state is torn, more of it in every other round.
    std::set<std::string> nodes;
    for (const GpuId& gpu : after.ranks()) nodes.insert(gpu.node);
    const std::vector<GpuId> gpus = lost.ranks();
    const std::vector<int> partners = snapshot_partners(lost, std::vector<VaultPlace>(gpus.size(), {"one"}));
    std::vector<Held> left;
    for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank)
      for (const int unit : old.layout.ranks[static_cast<std::size_t>(rank)].units) {
        const int partner = partners[static_cast<std::size_t>(rank)];
        if (nodes.count(gpus[static_cast<std::size_t>(rank)].node) != 0) {
          left.push_back({rank, rank, unit, 0, random() % (round % 2 == 0 ? 40 : 5) == 0 ? -1 : 30, 1});
          left.push_back({rank, rank, unit, 1, 20, 1});
        }
        if (partner >= 0 && nodes.count(gpus[static_cast<std::size_t>(partner)].node) != 0)
          left.push_back({partner, rank, unit, 1, 20, 1});
      }
    const SourceChoice choice = choose_source({{old, left}}, -1);
    if (choice.origin > Origin::snapshot) continue;
    (choice.origin == Origin::generation ? generations : snapshots)++;
    const TransferRequest request = recovery_request(config, lost, after, choice, device);
    const HandoffPlan plan = plan_recovery(config, lost, after, choice, device);
    CHECK(plan.routes.old_world.empty());
    for (const Message& message : plan.routes.new_world) CHECK(message.sender < plan.transfer.new_ranks());
    // A copy may be needed again, so no rank trains on in it.
    if (choice.origin == Origin::snapshot) CHECK(plan.transfer.adoptions().empty());
    const Elements elements(config.model, config.training.dtype);
    const std::set<std::pair<int, int>> torn(choice.torn.begin(), choice.torn.end());
    Memories memories;
    for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank)
      for (const int unit : old.layout.ranks[static_cast<std::size_t>(rank)].units) {
        std::vector<char>& memory = memories[{true, rank, unit}] = elements.state(old, rank, unit);
        if (torn.count({rank, unit}) != 0) memory.assign(memory.size(), 77);
      }
    const std::vector<std::string> problems = rehearse(plan.transfer, request, memories, random);
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (std::size_t rank = 0; rank < next.layout.ranks.size(); ++rank)
      for (const int unit : next.layout.ranks[rank].units)
        REQUIRE(memories.at({false, static_cast<int>(rank), unit}) ==
                elements.state(next, static_cast<int>(rank), unit));
  }
  CHECK(generations > 20);
  CHECK(snapshots > 10);
}

// Ranks that keep copies for others are chosen one by one, so a TP group's copies may part.
TEST_CASE("the copies of a lost TP group lie on two nodes: each node gives its own") {
  Config config;
  config.model = tiny_model("llama", false);
  Plan lost;
  lost.micro_batches = 2;
  lost.global_batch = 4;
  lost.stages = {{1, 1, {{2, {{"a", 0}}}}}, {1, 1, {{2, {{"b", 0}}}}}, {1, 2, {{2, {{"c", 0}, {"c", 1}}}}}};
  Plan after = lost;
  after.stages = {{2, 1, {{2, {{"a", 0}}}}}, {1, 1, {{2, {{"b", 0}}}}}};
  SourceChoice choice;
  choice.origin = Origin::snapshot;
  choice.step = 20;
  choice.holder = {0, 1, 1, 0};
  choice.slot = {1, 1, 1, 1};
  const GenerationLayout old{make_layout(lost, config.model.layers), config.training.zero1};
  const GenerationLayout next{make_layout(after, config.model.layers), config.training.zero1};
  const Elements elements(config.model, config.training.dtype);
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    const TransferRequest request = recovery_request(config, lost, after, choice, device);
    const HandoffPlan plan = plan_recovery(config, lost, after, choice, device);
    // The last layer's new rank is on b, as is the copy of old rank 2. That of old rank 3 is on a.
    for (const Copy& copy : plan.transfer.copies()) CHECK(copy.from.rank == (copy.to.rank == 0 ? 0 : 2));
    std::set<int> sent;
    for (const Message& message : plan.routes.new_world) {
      CHECK(message.sender == (message.from.rank == 3 ? 0 : 1));
      sent.insert(message.from.rank);
    }
    CHECK(sent == std::set<int>{1, 3});
    Memories memories;
    for (int rank = 0; rank < lost.gpu_count(); ++rank)
      for (const int unit : old.layout.ranks[static_cast<std::size_t>(rank)].units)
        memories[{true, rank, unit}] = elements.state(old, rank, unit);
    std::mt19937 random(32);
    const std::vector<std::string> problems = rehearse(plan.transfer, request, memories, random);
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (int rank = 0; rank < after.gpu_count(); ++rank)
      for (const int unit : next.layout.ranks[static_cast<std::size_t>(rank)].units)
        CHECK(memories.at({false, rank, unit}) == elements.state(next, rank, unit));
  }
}
