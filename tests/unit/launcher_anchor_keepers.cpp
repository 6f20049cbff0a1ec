#include "launcher/node/anchor_keepers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "planner/wire/thread_time.hpp"
#include "tests/unit/launcher_line.hpp"

using namespace espalier;
using namespace espalier::launcher;
using espalier::launcher::cases::Line;

namespace {

struct Keeper {
  std::shared_ptr<Line> line = std::make_shared<Line>();
  Keeper(AnchorKeepers& keepers, const std::string& node, std::optional<wire::Keep> keep = std::nullopt) {
    keepers.adopt(line, node, keep);
  }
  void beat() const { line->on_frame(wire::to_frame(wire::Heartbeat{})); }
  void end() const { line->on_closed("gone"); }
};

void miss(AnchorKeepers& keepers, int heartbeats) {
  for (int i = 0; i < heartbeats; ++i) keepers.beat();
}

}  // namespace

TEST_CASE("a keeper is greeted, told what to keep, and told to give back") {
  AnchorKeepers keepers;
  const Keeper one(keepers, "n2"), late(keepers, "n3", wire::Keep{2, 1});
  CHECK(one.line->types() == "heartbeat ");
  CHECK(late.line->types() == "heartbeat keep ");
  one.end();
  keepers.keep({3, 3});
  keepers.give_back();
  CHECK(one.line->types() == "heartbeat ");
  CHECK(late.line->types() == "heartbeat keep keep give_back ");
}

TEST_CASE("who has asked for it is told, once, that a keeper's connection has ended") {
  AnchorKeepers keepers;
  int gone = 0;
  const auto line = std::make_shared<Line>();
  keepers.adopt(line, "n2", std::nullopt, [&] { ++gone; });
  const Keeper other(keepers, "n3");
  other.end();
  CHECK(gone == 0);
  line->on_closed("gone");
  CHECK(gone == 1);
  keepers.beat();  // the ended one is sent nothing
  CHECK(line->types() == "heartbeat ");
}

TEST_CASE("a node whose keeper is connected and silent is lost until the keeper is heard") {
  AnchorKeepers keepers;
  const Keeper one(keepers, "n2"), two(keepers, "n3");
  miss(keepers, AnchorKeepers::kFalters);
  keepers.doubt({});
  CHECK_FALSE(keepers.lost("n2"));
  two.beat();
  miss(keepers, 1);
  keepers.doubt({});
  CHECK(keepers.lost("n2"));
  CHECK_FALSE(keepers.lost("n3"));
  one.beat();
  CHECK_FALSE(keepers.lost("n2"));
}

TEST_CASE("a node whose keeper has ended is lost if ranks died there as well") {
  AnchorKeepers keepers;
  const Keeper one(keepers, "n2");
  one.end();
  keepers.doubt({{"n3", 0}});
  CHECK_FALSE(keepers.lost("n2"));
  keepers.doubt({{"n2", 0}});
  CHECK(keepers.lost("n2"));
}

// The GPUs of the dead ranks were gone through for each keeper.
TEST_CASE("which of 8,192 nodes are lost is found in less than a second when all of their ranks have died") {
  constexpr int kNodes = 8192;
  AnchorKeepers keepers;
  std::vector<Keeper> many;
  std::set<GpuId> died;
  for (int node = 0; node < kNodes; ++node) {
    const std::string name = "n" + std::to_string(node);
    many.emplace_back(keepers, name);
    for (int gpu = 0; gpu < 8; ++gpu) died.insert({name, gpu});
  }
  for (int node = 0; node < kNodes; node += 2) many[static_cast<std::size_t>(node)].end();
  const double start = wire::thread_seconds();
  keepers.doubt(died);
  const double took = wire::thread_seconds() - start;
  MESSAGE(kNodes, " keepers, ", died.size(), " dead ranks: ", took, " s");
  CHECK(took < 1);
  for (int node = 0; node < kNodes; ++node) CHECK(keepers.lost("n" + std::to_string(node)) == (node % 2 == 0));
}

TEST_CASE("a keeper that has come back speaks for its node, and takes the place of one that was lost") {
  AnchorKeepers keepers;
  const Keeper silent(keepers, "n2");
  miss(keepers, AnchorKeepers::kFalters + 1);
  const Keeper back(keepers, "n2");  // before the launcher has noticed the end of the first
  keepers.doubt({{"n2", 0}});
  CHECK_FALSE(keepers.lost("n2"));
  silent.end();
  const Keeper third(keepers, "n2");
  miss(keepers, AnchorKeepers::kFalters + 1);
  third.beat();
  keepers.doubt({{"n2", 0}});
  CHECK_FALSE(keepers.lost("n2"));
}

TEST_CASE("a continuation goes to a few keepers, and to others in place of those that end") {
  AnchorKeepers keepers;
  std::vector<Keeper> many;
  for (int i = 0; i < AnchorKeepers::kContinuations + 2; ++i) many.emplace_back(keepers, "n" + std::to_string(i));
  keepers.remember({});
  const auto told = [](const Keeper& keeper) { return keeper.line->types().find("continuation") != std::string::npos; };
  CHECK(std::count_if(many.begin(), many.end(), told) == AnchorKeepers::kContinuations);
  CHECK_FALSE(told(many.back()));
  many[0].end();
  many[1].end();
  keepers.beat();
  CHECK(told(many.back()));
  const Keeper late(keepers, "late");
  CHECK_FALSE(told(late));
  keepers.remember({});  // a new one
  CHECK(many[2].line->types() == "heartbeat continuation heartbeat continuation ");
}
