// What the workers of a generation are told, and what telling many of them costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/world/workers.hpp"
#include "launcher/world/world.hpp"
#include "planner/wire/thread_time.hpp"
#include "tests/unit/launcher_line.hpp"
#include "tests/unit/loop_until.hpp"

namespace espalier::launcher {
namespace {

// Counts what it is sent, and keeps nothing: thousands of ranks get a plan of thousands of GPUs each. `unread_` is of
// all that share it.
class Counted final : public wire::Connection {
 public:
  explicit Counted(std::size_t& unread) : unread_(unread) {}
  const wire::Peer& peer() const override { return peer_; }
  void send(const wire::Frame& frame) override { send_encoded(wire::encode(frame)); }
  void send_encoded(std::string frame) override {
    frames.push_back(frame.size());
    waits_ += frame.size();
    unread_ += frame.size();
  }
  void close() override {}
  void limit_frames(std::size_t, wire::Loop::Milliseconds) override {}
  std::size_t unread() const override { return waits_; }
  void read() { unread_ -= std::exchange(waits_, 0); }
  std::vector<std::size_t> frames;  // bytes

 private:
  wire::Peer peer_;
  std::size_t& unread_;
  std::size_t waits_ = 0;
};

// One stage of `nodes` nodes with eight GPUs each.
Plan wide_plan(int nodes) {
  Stage stage{24, 1, {}};
  for (int node = 0; node < nodes; ++node)
    for (int gpu = 0; gpu < 8; ++gpu) stage.replicas.push_back({1, {{"node" + std::to_string(node), gpu}}});
  const int gpus = nodes * 8;
  return {.global_batch = gpus, .micro_batches = 1, .stages = {stage}};
}

std::vector<int> places_of(int nodes) {
  std::vector<int> places;
  for (int rank = 0; rank < nodes * 8; ++rank) places.push_back(rank % 8);
  return places;
}

wire::Hello hello_of(int rank) {
  wire::Hello hello;
  hello.rank = rank;
  hello.node = "node" + std::to_string(rank / 8);
  return hello;
}

void check_told(const cases::Line& line, int rank, const Plan& plan) {
  REQUIRE(line.sent.size() == 1);
  const auto told = wire::from_frame<wire::Assign>(line.sent.front());
  CHECK(told.plan == plan);
  CHECK(told.device == rank % 8);
}

TEST_CASE("workers: each rank is told the plan and its own place, whether it came before the assignment or after it") {
  const Plan plan = wide_plan(2);
  wire::Loop loop;
  Workers workers(loop, places_of(2));
  std::vector<std::shared_ptr<cases::Line>> lines;
  const auto come = [&](int rank) {
    workers.adopt(lines.emplace_back(std::make_shared<cases::Line>()), hello_of(rank), {});
  };
  for (int rank = 0; rank < 12; ++rank) come(rank);
  workers.give_assignment(3);  // there is none yet
  CHECK(lines[3]->sent.empty());
  workers.assign({.plan = plan, .source = {}});
  for (int rank = 12; rank < 16; ++rank) {
    come(rank);
    workers.give_assignment(rank);
  }
  for (int rank = 0; rank < 16; ++rank) check_told(*lines[static_cast<std::size_t>(rank)], rank, plan);

  SUBCASE("another assignment takes the place of the first") {
    Plan other = plan;
    other.micro_batches = 2;
    for (const auto& line : lines) line->sent.clear();
    workers.assign({.plan = other, .source = {}});
    for (int rank = 0; rank < 16; ++rank) check_told(*lines[static_cast<std::size_t>(rank)], rank, other);
  }
  SUBCASE("a message to all reaches all, unchanged") {
    for (const auto& line : lines) line->sent.clear();
    workers.send_all(wire::to_frame(wire::Switch{.next = plan, .generation = 1}));
    for (const auto& line : lines) CHECK(wire::from_frame<wire::Switch>(line->sent.at(0)).next == plan);
  }
}

TEST_CASE("workers: who has missed more than ten heartbeats is silent, or more than it said that it may") {
  wire::Loop loop;
  Workers workers(loop, places_of(1));
  std::vector<std::shared_ptr<cases::Line>> lines;
  for (const int may_miss : {0, 3, 60}) {
    wire::Capabilities can;
    can.missed_heartbeats = may_miss;
    const int rank = static_cast<int>(lines.size());
    workers.adopt(lines.emplace_back(std::make_shared<cases::Line>()), hello_of(rank), can);
    workers.beats(rank);
  }
  for (int beat = 0; beat < 10; ++beat) CHECK(workers.silent().empty());
  CHECK(workers.silent() == std::vector{0, 1});
  workers.heard(0);
  workers.done(1);
  for (int beat = 11; beat < 21; ++beat) CHECK(workers.silent().empty());
  workers.heard(0);
  for (int beat = 21; beat < 31; ++beat) CHECK(workers.silent().empty());
  for (int beat = 31; beat < 60; ++beat) {
    workers.heard(0);
    CHECK(workers.silent().empty());
  }
  CHECK(workers.silent() == std::vector{2});
  CHECK(workers.may_miss(1) == 10);
  CHECK(workers.may_miss(2) == 60);
}

// Ranks that read what has come at each turn of the loop, or not at all.
struct Crowd {
  static constexpr int kNodes = 512, kRanks = kNodes * 8;
  wire::Loop loop;
  std::size_t unread = 0, most_unread = 0;
  std::vector<std::shared_ptr<Counted>> lines;

  Crowd() {
    for (int rank = 0; rank < kRanks; ++rank) lines.push_back(std::make_shared<Counted>(unread));
  }
  void read_all() {
    for (const auto& line : lines) line->read();
  }
  bool told(std::size_t frames) const {
    return std::all_of(lines.begin(), lines.end(), [&](const auto& line) { return line->frames.size() == frames; });
  }
  // For which time the loop did nothing else, and how often it could, until all have been sent so many messages.
  struct Turns {
    double longest = 0;
    int count = 0;
  };
  Turns until_told(std::size_t frames) {
    Turns turns;
    // Of this thread's own work: other processes may have the cores.
    double looked = wire::thread_seconds();
    const auto look = loop.every(wire::Loop::Milliseconds(1), [&] {
      const double now = wire::thread_seconds();
      turns.longest = std::max(turns.longest, now - std::exchange(looked, now));
      ++turns.count;
      most_unread = std::max(most_unread, unread);
      read_all();
      if (told(frames)) loop.stop();
    });
    const auto limit = loop.after(std::chrono::seconds(60), [&] { loop.stop(); });
    loop.run();
    return turns;
  }
};

// Encoded for each rank by itself it took half a minute, in which the launcher heard no heartbeat.
TEST_CASE("workers: 4,096 ranks are told a plan of 4,096 GPUs in less than 10 s") {
  Crowd crowd;
  Workers workers(crowd.loop, places_of(crowd.kNodes));
  for (int rank = 0; rank < crowd.kRanks; ++rank)
    workers.adopt(crowd.lines[static_cast<std::size_t>(rank)], hello_of(rank), {});
  const auto start = std::chrono::steady_clock::now();
  workers.assign({.plan = wide_plan(crowd.kNodes), .source = {}});
  const auto turns = crowd.until_told(1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::size_t bytes = crowd.lines.front()->frames.at(0);
  MESSAGE("an assignment of ", bytes, " bytes to each of ", crowd.lines.size(), " ranks: ", took.count(),
          " s, and at most ", turns.longest, " s of work at once");
  for (const auto& line : crowd.lines) CHECK(line->frames == std::vector{bytes});
  CHECK(took.count() < 10);
}

struct Processes final : Ranks {
  bool running() const override { return true; }
  void signal(int) const override {}
};

// A generation of 4,096 ranks, all of which have said hello.
struct Generation {
  Crowd crowd;
  const Plan plan = wide_plan(crowd.kNodes);
  std::unique_ptr<World> world;

  Generation() {
    WorldRequest request;
    request.gpus = plan.ranks();
    for (int node = 0; node < crowd.kNodes; ++node)
      request.holdings.push_back({10, "node" + std::to_string(node), {0, 1, 2, 3, 4, 5, 6, 7}});
    const auto start = [](const WorldRequest&, RanksCallbacks) { return std::make_unique<Processes>(); };
    WorldCallbacks on;
    on.lost = [](const Loss&) {};
    world = std::make_unique<World>(crowd.loop, request, start, std::move(on));
    for (int rank = 0; rank < crowd.kRanks; ++rank)
      world->adopt(crowd.lines[static_cast<std::size_t>(rank)], hello_of(rank));
  }
};

// It names every GPU twice. In one turn of the loop that took seconds, and the memory of all connections at once.
TEST_CASE("workers: a switch of 4,096 ranks leaves the loop to others, and little of it is unread at once") {
  Generation one;
  Crowd& crowd = one.crowd;
  one.world->request_switch(one.plan, 1, one.world->jobs());
  one.world->send_all(wire::Resume{});  // short, and for most ranks behind a message that waits
  const auto& first = crowd.lines.front()->frames;
  REQUIRE(first.size() == 2);  // both at once
  const std::vector<std::size_t> both = first;
  CHECK(crowd.lines[2000]->frames.empty());

  // Nobody reads.
  test::until(
      crowd.loop, [] { return false; }, std::chrono::milliseconds(500));
  const std::size_t bound = PacedSends<int>::kUnreadInAll + PacedSends<int>::kAtOnce + both[0] + crowd.kRanks * both[1];
  CHECK(crowd.unread <= bound);
  CHECK(crowd.lines.back()->frames.empty());

  one.world->send_all(wire::Checkpoint{});
  const auto turns = crowd.until_told(3);
  MESSAGE("a switch of ", both[0], " bytes to each of ", crowd.lines.size(), " ranks: at most ", turns.longest,
          " s of work at once, ", turns.count, " turns for others, at most ", crowd.most_unread >> 20,
          " MiB unread at once");
  CHECK(crowd.most_unread <= bound);
  CHECK(turns.count > 5);
  for (const auto& line : crowd.lines) {
    REQUIRE(line->frames.size() == 3);
    CHECK(line->frames[0] == both[0]);  // in the order in which they were sent
    CHECK(line->frames[1] == both[1]);
  }
}

TEST_CASE("workers: a short message goes at once to all for whom none waits, and a rank that is gone is told nothing") {
  Generation one;
  Crowd& crowd = one.crowd;
  one.world->send_all(wire::Commit{});
  CHECK(crowd.told(1));
  one.world->request_switch(one.plan, 1, one.world->jobs());
  CHECK(crowd.lines.back()->frames.size() == 1);
  const auto gone = crowd.lines.back();
  gone->on_closed("closed");
  crowd.lines.pop_back();
  crowd.until_told(2);
  CHECK(crowd.told(2));
  CHECK(gone->frames.size() == 1);
}

}  // namespace
}  // namespace espalier::launcher
