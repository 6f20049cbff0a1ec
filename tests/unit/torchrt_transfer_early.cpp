#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/torchrt_plans.hpp"
#include "tests/unit/torchrt_transfer_cases.hpp"
#include "tests/unit/torchrt_transfer_rehearsal.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

Memories state_of(const Elements& elements, const GenerationLayout& generation, bool old, int step) {
  Memories memories;
  for (std::size_t r = 0; r < generation.layout.ranks.size(); ++r)
    for (const int unit : generation.layout.ranks[r].units)
      memories[{old, static_cast<int>(r), unit}] = elements.state(generation, static_cast<int>(r), unit, step);
  return memories;
}

std::uint32_t gradient_value(std::int64_t number) { return static_cast<std::uint32_t>(number + 7) * 40503U; }

// The place of an element of the optimizer's state or of the parameters among the unit's
// parameters.
std::size_t place_of(const StateLayout& state, std::int64_t number, std::size_t at) {
  const auto first = static_cast<std::size_t>(state.shard.first);
  if (number % 4 == 1) return (at - state.master_offset()) / 4 + first;
  if (number % 4 == 2) return (at - state.first_moment_offset()) / 4 + first;
  if (number % 4 == 3) return (at - state.second_moment_offset()) / 4 + first;
  return at / size_of(state.dtype);
}

// A rank has the sum over the replicas only for its own part. The other values in its memory are
// useless.
void add_gradients(Memories& memories, const TransferPlan& plan, const Elements& elements,
                   const GenerationLayout& generation) {
  for (std::size_t r = 0; r < generation.layout.ranks.size(); ++r)
    for (const int unit : generation.layout.ranks[r].units) {
      const int rank = static_cast<int>(r);
      const StateLayout& state = plan.shard({true, rank, unit}).state;
      std::vector<char>& gradient = memories[{true, rank, gradient_of(unit)}];
      gradient.assign(state.floats * 4, 77);
      elements.each(generation, rank, unit, [&](std::int64_t number, std::size_t at, std::size_t) {
        if (number % 4 != 2) return;
        const std::uint32_t value = gradient_value(number - 2);
        std::memcpy(gradient.data() + 4 * place_of(state, number, at), &value, sizeof value);
      });
    }
}

// Plays an optimizer. The result is right only from the state of the step before and the right
// gradient. With bfloat16 the parameters are the rounded masters.
void update(Memories& memories, const MemoryId& memory, const TransferPlan& plan, const Elements& elements,
            const GenerationLayout& generation) {
  const StateLayout& state = plan.shard(memory).state;
  const std::vector<char>& gradient = memories.at({false, memory.rank, gradient_of(memory.unit)});
  std::vector<char>& mine = memories.at(memory);
  const std::vector<char> before = elements.state(generation, memory.rank, memory.unit, 0);
  const std::vector<char> after = elements.state(generation, memory.rank, memory.unit, 1);
  elements.each(generation, memory.rank, memory.unit, [&](std::int64_t number, std::size_t at, std::size_t bytes) {
    const std::size_t place = place_of(state, number, at);
    const auto index = static_cast<std::int64_t>(place);
    if (index < state.shard.first || index >= state.shard.end()) return;
    const std::uint32_t wanted = gradient_value(number - number % 4);
    const bool derived = number % 4 == 0 && state.has_master();
    if (!derived && (std::memcmp(gradient.data() + 4 * place, &wanted, 4) != 0 ||
                     std::memcmp(mine.data() + at, before.data() + at, bytes) != 0))
      return;
    std::memcpy(mine.data() + at, after.data() + at, bytes);
  });
}

}  // namespace

TEST_CASE("what is sent early and the gradients make the state after the step, in any two generations") {
  std::mt19937 random(17);
  int early_rounds = 0, divided = 0, forwarded = 0, mixed = 0;
  for (int round = 0; round < 400; ++round) {
    const ModelConfig model = random_transfer_model(random);
    TransferRequest request = random_request(random, model.layers);
    request.two_worlds = true;
    if (!share_a_node(request)) continue;  // no hand-off is possible
    CAPTURE(round);
    CAPTURE(describe(request.before));
    CAPTURE(describe(request.after));
    const Elements elements(model, request.dtype);
    const TransferPlan plan(model, request);
    const GenerationLayout old = before(request, model.layers), then = after(request, model.layers);
    Memories memories = state_of(elements, old, true, 0);
    const Memories expected_old = state_of(elements, old, true, 1);
    const std::vector<std::string> problems =
        rehearse_early(plan, request, memories, random,
                       {[&](Memories& all) {
                          for (const auto& [memory, bytes] : expected_old) all[memory] = bytes;
                          add_gradients(all, plan, elements, old);
                        },
                        [&](Memories& all, const MemoryId& memory) { update(all, memory, plan, elements, then); }});
    REQUIRE_MESSAGE(problems.empty(), problems.front());
    for (const auto& [memory, bytes] : state_of(elements, then, false, 1)) REQUIRE(memories.at(memory) == bytes);
    for (const auto& [memory, bytes] : expected_old) REQUIRE(memories.at(memory) == bytes);

    const Routes routes = make_routes(plan, request);
    const EarlyPlan early(plan, routes);
    std::int64_t whole = 0, last = 0, sliced = 0;
    for (std::size_t m = 0; m < routes.new_world.size(); ++m) {
      whole += static_cast<std::int64_t>(routes.new_world[m].piece.bytes);
      if (!early.early(m)) continue;
      sliced -= static_cast<std::int64_t>(routes.new_world[m].piece.bytes);
      forwarded += routes.new_world[m].after >= 0 ? 1 : 0;
    }
    for (int rank = 0; rank < plan.new_ranks(); ++rank) {
      for (const MessageOperation& message : early.last(message_operations(plan, routes.new_world, rank)))
        if (!message.sends) last += static_cast<std::int64_t>(message.bytes);
      for (const auto& slice : early.slices(message_operations(plan, routes.new_world, rank), 5))
        for (const MessageOperation& message : slice)
          if (!message.sends) sliced += static_cast<std::int64_t>(message.bytes);
    }
    CHECK(sliced == 0);
    const std::vector<MemoryId> filled = filled_early(plan, early);
    CHECK(filled.empty() == !early.any());
    if (filled.empty()) {
      CHECK(last == whole);
      continue;
    }
    CHECK(last < whole);
    ++early_rounds;
    for (const MemoryId& memory : filled) {
      const StateLayout& state = plan.shard(memory).state;
      divided += state.shard.count < static_cast<std::int64_t>(state.floats) ? 1 : 0;
    }
    mixed += filled.size() < state_of(elements, then, false, 0).size() ? 1 : 0;
  }
  CHECK(early_rounds > 60);
  CHECK(divided > 20);
  CHECK(forwarded > 20);
  CHECK(mixed > 20);
}

TEST_CASE("growth by a node: a third of the bytes is left for the pause, and slices are even") {
  std::mt19937 random(3);
  ModelConfig model = random_transfer_model(random);
  model.layers = 12;
  TransferRequest request;
  request.before = pipeline_of({{"a", 0}, {"b", 0}}, model.layers);
  request.after = pipeline_of({{"a", 0}, {"b", 0}, {"c", 0}}, model.layers);
  request.two_worlds = true;
  request.message_bytes = 4096;
  const TransferPlan plan(model, request);
  const Routes routes = make_routes(plan, request);
  const EarlyPlan early(plan, routes);
  std::int64_t last = 0;
  for (int rank = 0; rank < 3; ++rank) {
    for (const MessageOperation& message : early.last(message_operations(plan, routes.new_world, rank)))
      if (!message.sends) last += static_cast<std::int64_t>(message.bytes);
    const auto slices = early.slices(message_operations(plan, routes.new_world, rank), 4);
    std::vector<std::size_t> received;
    for (const auto& slice : slices) {
      received.push_back(0);
      for (const MessageOperation& message : slice)
        if (!message.sends) received.back() += message.bytes;
    }
    const auto [least, most] = std::minmax_element(received.begin(), received.end());
    CHECK(*most <= *least + 2 * request.message_bytes);
  }
  CHECK(plan.bytes_sent() > 0);
  CHECK(3 * last == plan.bytes_sent());
}
