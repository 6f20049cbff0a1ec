// A generation's workers and ranks together, as the launcher's rooms hear of them.
#include "launcher/world/world.hpp"

#include <doctest/doctest.h>

#include "tests/unit/launcher_line.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

struct NoRanks final : Ranks {
  bool running() const override { return true; }
  void signal(int) const override {}
};

// Two workers that have said hello. What the world tells is noted.
struct TwoWorkers {
  wire::Loop loop;
  std::string log;
  std::vector<std::shared_ptr<cases::Line>> lines;
  World world;

  TwoWorkers()
      : world(
            loop, request(), [](const WorldRequest&, RanksCallbacks) { return std::make_unique<NoRanks>(); },
            callbacks()) {
    for (const int rank : {0, 1}) {
      wire::Hello hello;
      hello.generation = 3;
      hello.rank = rank;
      hello.node = "n1";
      lines.push_back(std::make_shared<cases::Line>());
      world.adopt(lines.back(), hello);
    }
  }
  static WorldRequest request() {
    WorldRequest two;
    two.generation = 3;
    two.gpus = {{"n1", 0}, {"n1", 1}};
    two.holdings = {{10, "n1", {0, 1}}};
    return two;
  }
  WorldCallbacks callbacks() {
    WorldCallbacks on;
    on.switched = [this] { log += "switched "; };
    on.stays = [this](const std::string& why) { log += "stays: " + why + " "; };
    on.lost = [this](const Loss& loss) { log += "lost: " + loss.why + " "; };
    return on;
  }
  void switched(int rank, std::int64_t step, const std::string& problem = "") {
    lines.at(static_cast<std::size_t>(rank))->on_frame(wire::to_frame(wire::Switched{step, problem}));
  }
};

}  // namespace

TEST_CASE("the last answer to a switch that was given up does not tell the next change why its state cannot be had") {
  TwoWorkers job;
  job.world.request_switch({}, 4, {});
  job.switched(0, 5, "no room");
  job.world.give_up_switch();
  CHECK(job.lines[1]->types() == "switch resume ");
  job.switched(1, 5);
  CHECK(job.log.empty());
  job.world.request_switch({}, 5, {});
  job.switched(0, 8);
  job.switched(1, 8);
  CHECK(job.log == "switched ");
}
