#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/handoff/transfer_plan.hpp"
#include "torchrt/layout.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

int count(const TransferPlan& plan, TakeKind kind) {
  return static_cast<int>(
      std::count_if(plan.takes.begin(), plan.takes.end(), [&](const Take& take) { return take.kind == kind; }));
}

// Plays the transfer with node names for memory and checks that every step finds what it needs.
void rehearse(const Plan& before, const Plan& after, const TransferPlan& plan, int layers) {
  const Layout old_layout = make_layout(before, layers), new_layout = make_layout(after, layers);
  const std::vector<GpuId> old_gpus = before.ranks(), new_gpus = after.ranks();
  std::set<std::pair<Piece, int>> held;  // with the old rank
  for (std::size_t r = 0; r < old_gpus.size(); ++r)
    for (const int unit : old_layout.ranks[r].units)
      held.insert({{unit, old_layout.ranks[r].tp_rank}, static_cast<int>(r)});
  for (const Collapse& collapse : plan.collapses) {
    CHECK(held.count({collapse.piece, collapse.from}) == 1);
    CHECK(old_gpus[static_cast<std::size_t>(collapse.from)].node !=
          old_gpus[static_cast<std::size_t>(collapse.to)].node);
    CHECK(held.insert({collapse.piece, collapse.to}).second);
  }
  std::set<std::pair<Piece, int>> adopted, have;
  for (const Take& take : plan.takes) {
    const std::string& node = new_gpus[static_cast<std::size_t>(take.rank)].node;
    const RankLayout& taker = new_layout.ranks[static_cast<std::size_t>(take.rank)];
    CHECK(taker.tp_rank == take.piece.part);
    CHECK(std::count(taker.units.begin(), taker.units.end(), take.piece.unit) == 1);
    CHECK(have.insert({take.piece, take.rank}).second);
    if (take.kind == TakeKind::receive) continue;
    CHECK(held.count({take.piece, take.from}) == 1);
    CHECK(old_gpus[static_cast<std::size_t>(take.from)].node == node);
    if (take.kind == TakeKind::adopt) CHECK(adopted.insert({take.piece, take.from}).second);
  }
  std::set<std::pair<Piece, int>> given;
  for (const Donation& donation : plan.donations) {
    const std::string& node = new_gpus[static_cast<std::size_t>(donation.donor)].node;
    CHECK(given.insert({donation.piece, donation.to}).second);
    if (donation.old_rank >= 0) {
      CHECK(held.count({donation.piece, donation.old_rank}) == 1);
      CHECK(old_gpus[static_cast<std::size_t>(donation.old_rank)].node == node);
    } else {
      CHECK(std::any_of(plan.takes.begin(), plan.takes.end(), [&](const Take& take) {
        return take.piece == donation.piece && take.rank == donation.donor && take.kind != TakeKind::receive;
      }));
    }
  }
  for (const Take& take : plan.takes)
    if (take.kind == TakeKind::receive) CHECK(given.erase({take.piece, take.rank}) == 1);
  CHECK(given.empty());
  std::size_t needed = 0;
  for (const RankLayout& rank : new_layout.ranks) needed += rank.units.size();
  CHECK(have.size() == needed);
}

// Replicas of `tp` GPUs on one node.
Plan random_plan(std::mt19937& random, int layers, int tp = 1) {
  std::vector<GpuId> gpus;
  for (int node = 0; node < 4; ++node)
    for (int index = 0; index < 3; ++index)
      if (index == 0 ? node == 0 || random() % 2 == 0 : random() % 2 == 0)
        gpus.push_back({std::string(1, static_cast<char>('a' + node)), index});
  std::shuffle(gpus.begin() + 1, gpus.end(), random);
  std::vector<std::vector<ShortReplica>> stages;
  for (std::size_t next = 0; next < gpus.size();) {
    const std::size_t replicas = std::min<std::size_t>(1 + random() % 2, gpus.size() - next);
    stages.emplace_back();
    for (std::size_t j = 0; j < replicas; ++j, ++next)
      stages.back().push_back({replicas == 1 ? 2 : 1, gpus[next].node, gpus[next].index});
    if (static_cast<int>(stages.size()) == layers) break;
  }
  Plan plan = short_plan(stages, layers, 2, 2);
  for (Stage& stage : plan.stages) {
    stage.tp = tp;
    for (Replica& replica : stage.replicas)
      for (int t = 1; t < tp; ++t) replica.gpus.push_back({replica.gpus[0].node, replica.gpus[0].index + 100 * t});
  }
  return plan;
}

}  // namespace

TEST_CASE("growing on the node adopts everything and sends nothing") {
  const Plan before = pipeline({{"a", 0}, {"a", 1}}), after = pipeline({{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}});
  const TransferPlan plan = plan_transfer(before, after, 8, false);
  CHECK(count(plan, TakeKind::adopt) == 10);
  CHECK(plan.takes.size() == 10);
  CHECK(plan.collapses.empty());
  CHECK(plan.donations.empty());
}

TEST_CASE("growing onto another node: what moves is received from ranks of the new generation") {
  const Plan before = pipeline({{"a", 0}, {"a", 1}}), after = pipeline({{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}});
  const TransferPlan plan = plan_transfer(before, after, 8, false);
  rehearse(before, after, plan, 8);
  CHECK(count(plan, TakeKind::adopt) == 5);
  CHECK(count(plan, TakeKind::receive) == 5);
  CHECK(plan.collapses.empty());
}

TEST_CASE("shrinking off a node: what moves does so in the old generation, then is adopted") {
  const Plan before = pipeline({{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}}), after = pipeline({{"a", 0}, {"a", 1}});
  const TransferPlan plan = plan_transfer(before, after, 8, false);
  rehearse(before, after, plan, 8);
  CHECK(plan.collapses.size() == 5);
  CHECK(count(plan, TakeKind::adopt) == 10);
  CHECK(plan.donations.empty());
}

TEST_CASE("moving from one node to another passes through the node both plans share") {
  const Plan before = pipeline({{"a", 0}, {"b", 0}}), after = pipeline({{"a", 0}, {"c", 0}});
  const TransferPlan plan = plan_transfer(before, after, 8, false);
  rehearse(before, after, plan, 8);
  CHECK(plan.collapses.size() == 5);
  CHECK(plan.donations.size() == 5);
  for (const Donation& donation : plan.donations) CHECK(donation.old_rank >= 0);
}

TEST_CASE("a new replica on the node copies, as one allocation has one owner") {
  const Plan before = pipeline({{"a", 0}});
  const Plan after = short_plan({{{1, "a", 0}, {1, "a", 1}}}, 8, 4, 2);
  const TransferPlan plan = plan_transfer(before, after, 8, false);
  rehearse(before, after, plan, 8);
  CHECK(count(plan, TakeKind::adopt) == 10);
  CHECK(count(plan, TakeKind::copy) == 10);
}

TEST_CASE("memory of a GPU is adopted on that GPU only") {
  const Plan before = pipeline({{"a", 0}, {"a", 1}}), after = pipeline({{"a", 1}, {"a", 2}});
  const TransferPlan plan = plan_transfer(before, after, 8, true);
  rehearse(before, after, plan, 8);
  CHECK(count(plan, TakeKind::adopt) == 0);
  CHECK(count(plan, TakeKind::copy) == 10);
  CHECK(count(plan_transfer(before, pipeline({{"a", 0}, {"a", 1}, {"a", 2}}), 8, true), TakeKind::adopt) == 6);
}

TEST_CASE("plans without a common node are refused") {
  CHECK_THROWS_AS(plan_transfer(pipeline({{"a", 0}}), pipeline({{"b", 0}}), 8, false), Error);
}

TEST_CASE("any plan turns into any other that shares a node") {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const Plan before = random_plan(random, 6), after = random_plan(random, 6);
    CAPTURE(describe(before));
    CAPTURE(describe(after));
    rehearse(before, after, plan_transfer(before, after, 6, round % 2 == 0), 6);
  }
}

TEST_CASE("TP ranks take the pieces of their own place, also into another pipeline") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const Plan before = random_plan(random, 6, 2), after = random_plan(random, 6, 2);
    CAPTURE(describe(before));
    CAPTURE(describe(after));
    rehearse(before, after, plan_transfer(before, after, 6, round % 2 == 0), 6);
  }
}

TEST_CASE("a layer that would change its TP degree is refused by name") {
  const Plan before = uniform_plan(2, 1, 4, 4, 2, {{"a", 0}, {"a", 1}});
  const Plan after = uniform_plan(2, 1, 4, 4, 2, {{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}}, 2);
  CHECK_THROWS_WITH_AS(plan_transfer(before, after, 4, false),
                       "hand-off: the layers of unit 0 would change their TP degree from 1 to 2, which running jobs "
                       "cannot; choose plans that keep each layer's TP degree",
                       Error);
}

TEST_CASE("state is served by descriptor: the same memory in another mapping") {
  const auto device = make_cpu_device();
  const auto allocation = device->allocate(8192, "espalier-test");
  const std::string address = state_address("abcdef0123456789", 1, static_cast<int>(::getpid()));
  CHECK(address.rfind("espalier-abcdef01-g1-r", 0) == 0);
  StateServer server(address);
  CHECK_THROWS_AS(fetch_piece(address, {3, 1}), Error);
  server.offer({3, 1}, allocation->fd(), allocation->bytes());
  server.mark(17);
  FetchedPiece fetched = fetch_piece(address, {3, 1});
  CHECK_THROWS_AS(fetch_piece(address, {3, 0}), Error);
  CHECK(fetched.bytes == 8192);
  CHECK(fetched.step == 17);
  const auto adopted = device->adopt(std::move(fetched.fd), 8192);
  std::strcpy(static_cast<char*>(allocation->data()), "written by the owner");
  CHECK(std::string(static_cast<char*>(adopted->data())) == "written by the owner");
  CHECK(::ftruncate(adopted->fd(), 0) != 0);  // sealed
  CHECK_THROWS_AS(device->adopt(fetch_piece(address, {3, 1}).fd, 4096), Error);
  server.withdraw({3, 1});
  CHECK_THROWS_AS(fetch_piece(address, {3, 1}), Error);
  CHECK_THROWS_AS(StateServer{address}, Error);
}

TEST_CASE("nobody at the address is an error") { CHECK_THROWS_AS(fetch_piece("espalier-nobody-g0-r0", {}), Error); }
