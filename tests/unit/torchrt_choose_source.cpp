// The source of a new generation's state after the one before is lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/unit/torchrt_plans.hpp"
#include "tests/unit/torchrt_transfer_cases.hpp"
#include "torchrt/recovery/choose_source.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

GenerationLayout layout_of(const Plan& plan, bool zero1 = false) { return {make_layout(plan, 8), zero1}; }

GenerationLayout pipeline_of_two() { return layout_of(pipeline_of({{"a", 0}, {"b", 0}})); }
GenerationLayout two_replicas(bool zero1 = false) {
  return layout_of(short_plan({{{1, "a", 0}, {1, "b", 0}}}, 8, 4, 2), zero1);
}

SourceChoice choose_source(const GenerationLayout& lost, const std::vector<Held>& left, std::int64_t checkpoint) {
  return torchrt::choose_source({{lost, left}}, checkpoint);
}

// All that a layout's ranks hold after `step`.
std::vector<Held> all_of(const GenerationLayout& layout, std::int64_t step, int slot = 0) {
  std::vector<Held> held;
  for (std::size_t rank = 0; rank < layout.layout.ranks.size(); ++rank)
    for (const int unit : layout.layout.ranks[rank].units)
      held.push_back({static_cast<int>(rank), static_cast<int>(rank), unit, slot, step, 100});
  return held;
}

void lose(std::vector<Held>& held, int holder) {
  std::erase_if(held, [&](const Held& one) { return one.holder == holder; });
}

Held& of(std::vector<Held>& held, int rank, int unit) {
  return *std::find_if(held.begin(), held.end(),
                       [&](const Held& one) { return one.rank == rank && one.unit == unit && one.slot == 0; });
}

}  // namespace

TEST_CASE("what all ranks left after one step is gone on from there") {
  const GenerationLayout lost = pipeline_of_two();
  const SourceChoice choice = choose_source(lost, all_of(lost, 7), 5);
  CHECK(choice.origin == Origin::generation);
  CHECK(choice.step == 7);
  CHECK(choice.torn.empty());
  CHECK(choice.holder == std::vector<int>{0, 1});
}

TEST_CASE("without a replica a lost rank leaves a checkpoint, or the start") {
  const GenerationLayout lost = pipeline_of_two();
  std::vector<Held> left = all_of(lost, 7);
  lose(left, 1);
  CHECK(choose_source(lost, left, 5).origin == Origin::checkpoint);
  CHECK(choose_source(lost, left, 5).step == 5);
  CHECK(choose_source(lost, left, -1).origin == Origin::start);
  CHECK(choose_source(lost, left, -1).step == 0);
  CHECK(choose_source(lost, {}, 0).origin == Origin::checkpoint);
}

TEST_CASE("the replica's state stands for a lost one's") {
  const GenerationLayout lost = two_replicas();
  std::vector<Held> left = all_of(lost, 7);
  lose(left, 0);
  const SourceChoice choice = choose_source(lost, left, -1);
  CHECK(choice.origin == Origin::generation);
  CHECK(choice.holder == std::vector<int>{-1, 1});
  CHECK(choice.torn.size() == lost.layout.ranks[0].units.size());
}

TEST_CASE("ZeRO-1: every part must be left") {
  const GenerationLayout lost = two_replicas(true);
  std::vector<Held> left = all_of(lost, 7);
  CHECK(choose_source(lost, left, -1).origin == Origin::generation);
  lose(left, 0);
  CHECK(choose_source(lost, left, -1).origin == Origin::start);
}

TEST_CASE("a unit that was being changed is had from the replica, whichever step that has reached") {
  const GenerationLayout lost = two_replicas();
  std::vector<Held> left = all_of(lost, 7);
  for (const int unit : lost.layout.ranks[0].units) of(left, 0, unit).step = unit < 4 ? 8 : unit == 4 ? -1 : 7;
  // The replica has not begun its update.
  SourceChoice choice = choose_source(lost, left, -1);
  CHECK(choice.origin == Origin::generation);
  CHECK(choice.step == 7);
  CHECK(choice.torn == std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}});
  // The replica has finished its update.
  for (const int unit : lost.layout.ranks[1].units) of(left, 1, unit).step = 8;
  choice = choose_source(lost, left, -1);
  CHECK(choice.step == 8);
  CHECK(std::all_of(choice.torn.begin(), choice.torn.end(), [](const auto& torn) { return torn.first == 0; }));
  CHECK(choice.torn.size() == lost.layout.ranks[0].units.size() - 4);
  // The replica has torn the same unit.
  of(left, 1, 4).step = -1;
  CHECK(choose_source(lost, left, -1).origin == Origin::start);
  // The replica has torn another unit: both together have all of step 8.
  of(left, 1, 4).step = 8;
  of(left, 1, 2).step = -1;
  CHECK(choose_source(lost, left, -1).step == 8);
}

TEST_CASE("stages that stand at different steps are of no use together") {
  const GenerationLayout lost = pipeline_of_two();
  std::vector<Held> left = all_of(lost, 7);
  for (Held& held : left)
    if (held.rank == 1) held.step = 8;
  CHECK(choose_source(lost, left, 3).origin == Origin::checkpoint);
}

TEST_CASE("snapshots are taken when the state is torn, the newest that is whole, from whoever keeps it") {
  const GenerationLayout lost = pipeline_of_two();
  std::vector<Held> left = all_of(lost, -1);
  const auto copy = [&](int holder, int rank, int slot, std::int64_t step) {
    for (const int unit : lost.layout.ranks[static_cast<std::size_t>(rank)].units)
      left.push_back({holder, rank, unit, slot, step, 100});
  };
  copy(0, 0, 1, 10);
  copy(0, 1, 3, 10);
  copy(0, 0, 2, 20);
  SourceChoice choice = choose_source(lost, left, -1);
  CHECK(choice.origin == Origin::snapshot);
  CHECK(choice.step == 10);
  CHECK(choice.holder == std::vector<int>{0, 0});
  CHECK(choice.slot == std::vector<int>{1, 3});
  copy(1, 1, 2, 20);
  choice = choose_source(lost, left, 20);
  CHECK(choice.step == 20);
  CHECK(choice.holder == std::vector<int>{0, 1});
  CHECK(choose_source(lost, left, 21).origin == Origin::checkpoint);
}

TEST_CASE("a generation that changed nothing is gone back behind") {
  const GenerationLayout pipeline = pipeline_of_two(), replicas = two_replicas();
  Remains lost{pipeline, all_of(pipeline, 7), true}, earlier{replicas, all_of(replicas, 7)};
  CHECK(torchrt::choose_source({lost, earlier}, 5).generation == 0);
  lose(lost.left, 1);
  SourceChoice choice = torchrt::choose_source({lost, earlier}, 5);
  CHECK(choice.origin == Origin::generation);
  CHECK(choice.generation == 1);
  CHECK(choice.step == 7);
  // Also behind two such generations.
  CHECK(torchrt::choose_source({lost, lost, earlier}, 5).generation == 2);
  // But not if training has since gone back behind `earlier`.
  earlier.until = 6;
  CHECK(torchrt::choose_source({lost, earlier}, 5).origin == Origin::checkpoint);
  earlier.until = 7;
  // A generation that may have changed adopted memory hides all generations before it.
  lost.untouched = false;
  CHECK(torchrt::choose_source({lost, earlier}, 5).origin == Origin::checkpoint);
  Remains untouched = lost;
  untouched.untouched = true;
  CHECK(torchrt::choose_source({untouched, lost, earlier}, 5).origin == Origin::checkpoint);
  // Only copies are left of `earlier`, so it cannot be gone back to either.
  lost.untouched = true;
  earlier.copies_only = true;
  CHECK(torchrt::choose_source({lost, earlier}, 5).origin == Origin::checkpoint);
}

TEST_CASE("copies of earlier generations are of use whatever the later ones did, the newest of all") {
  const GenerationLayout pipeline = pipeline_of_two(), replicas = two_replicas();
  Remains lost{pipeline, all_of(pipeline, -1)}, earlier{replicas, all_of(replicas, 6, 1), false, true};
  SourceChoice choice = torchrt::choose_source({lost, earlier}, 5);
  CHECK(choice.origin == Origin::snapshot);
  CHECK(choice.generation == 1);
  CHECK(choice.step == 6);
  CHECK(torchrt::choose_source({lost, earlier}, 7).origin == Origin::checkpoint);
  const Remains oldest{replicas, all_of(replicas, 4, 2), false, true};
  CHECK(torchrt::choose_source({lost, oldest, earlier}, 0).generation == 2);
  // Training has since gone back behind `earlier`.
  earlier.until = 5;
  CHECK(torchrt::choose_source({lost, oldest, earlier}, 0).generation == 1);
  earlier.until = 6;
  for (const Held& copy : all_of(pipeline, 8, 1)) lost.left.push_back(copy);
  choice = torchrt::choose_source({lost, oldest, earlier}, 5);
  CHECK(choice.generation == 0);
  CHECK(choice.step == 8);
}

TEST_CASE("any losses: the newest step that is whole is chosen, and exactly what it lacks counts as torn") {
  std::mt19937 random(21);
  int generations = 0, snapshots = 0, others = 0;
  for (int round = 0; round < 3000; ++round) {
    const ModelConfig model = random_transfer_model(random);
    const GenerationLayout lost{make_layout(random_transfer_plan(random, model.layers), model.layers),
                                random() % 2 == 0};
    const int ranks = static_cast<int>(lost.layout.ranks.size());
    std::vector<Held> left;
    for (int rank = 0; rank < ranks; ++rank) {
      if (random() % 8 == 0) continue;
      const bool ahead = random() % 3 == 0;
      for (const int unit : lost.layout.ranks[static_cast<std::size_t>(rank)].units)
        left.push_back({rank, rank, unit, 0, random() % 16 == 0 ? -1 : ahead ? 31 : 30, 1});
      const int holder = static_cast<int>(random() % static_cast<unsigned>(ranks));
      for (const int slot : {1, 2})
        if (random() % 6 != 0)
          for (const int unit : lost.layout.ranks[static_cast<std::size_t>(rank)].units)
            left.push_back({holder, rank, unit, slot, slot * 10, 1});
    }
    std::shuffle(left.begin(), left.end(), random);
    const std::int64_t checkpoint = static_cast<std::int64_t>(random() % 25) - 1;
    const SourceChoice choice = choose_source(lost, left, checkpoint);

    // Whether every shard of every unit after `step` is held, as seen from each rank that needs it.
    const auto whole = [&](bool own, std::int64_t step) {
      for (int rank = 0; rank < ranks; ++rank) {
        const RankLayout& self = lost.layout.ranks[static_cast<std::size_t>(rank)];
        for (const int unit : self.units)
          if (std::none_of(left.begin(), left.end(), [&](const Held& held) {
                const RankLayout& other = lost.layout.ranks[static_cast<std::size_t>(held.rank)];
                return held.unit == unit && held.step == step && (held.slot == 0) == own && other.stage == self.stage &&
                       other.tp_rank == self.tp_rank && (!lost.zero1 || other.replica == self.replica);
              }))
            return false;
      }
      return true;
    };
    Origin expected = checkpoint >= 0 ? Origin::checkpoint : Origin::start;
    std::int64_t step = std::max<std::int64_t>(checkpoint, 0);
    for (const std::int64_t copied : {10, 20})
      if (copied >= checkpoint && whole(false, copied)) expected = Origin::snapshot, step = copied;
    for (const std::int64_t trained : {30, 31})
      if (whole(true, trained)) expected = Origin::generation, step = trained;
    CAPTURE(round);
    REQUIRE(choice.origin == expected);
    REQUIRE(choice.step == step);
    generations += expected == Origin::generation;
    snapshots += expected == Origin::snapshot;
    others += expected > Origin::snapshot;
    if (expected > Origin::snapshot) continue;
    const std::set<std::pair<int, int>> torn(choice.torn.begin(), choice.torn.end());
    for (int rank = 0; rank < ranks; ++rank)
      for (const int unit : lost.layout.ranks[static_cast<std::size_t>(rank)].units) {
        const auto at = static_cast<std::size_t>(rank);
        const bool there = std::any_of(left.begin(), left.end(), [&](const Held& held) {
          return held.rank == rank && held.unit == unit && held.step == step && held.holder == choice.holder[at] &&
                 held.slot == choice.slot[at];
        });
        REQUIRE(there == (torn.count({rank, unit}) == 0));
      }
  }
  CHECK(generations > 200);
  CHECK(snapshots > 100);
  CHECK(others > 200);
}
