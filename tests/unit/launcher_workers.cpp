// What the workers of a generation are told, and what telling many of them costs.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "launcher/world/workers.hpp"
#include "tests/unit/launcher_line.hpp"

namespace espalier::launcher {
namespace {

// Counts what it is sent, and keeps nothing: thousands of ranks get a plan of thousands of GPUs each.
class Counted final : public wire::Connection {
 public:
  const wire::Peer& peer() const override { return peer_; }
  void send(const wire::Frame& frame) override { bytes += wire::encode(frame).size(); }
  void send_encoded(std::string frame) override { bytes += frame.size(); }
  void close() override {}
  void limit_frames(std::size_t, wire::Loop::Milliseconds) override {}
  std::size_t bytes = 0;

 private:
  wire::Peer peer_;
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
  Workers workers(places_of(2));
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
  Workers workers(places_of(1));
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

// Encoded for each rank by itself it took half a minute, in which the launcher heard no heartbeat.
TEST_CASE("workers: 4,096 ranks are told a plan of 4,096 GPUs in less than 10 s") {
  constexpr int kNodes = 512;
  Workers workers(places_of(kNodes));
  std::vector<std::shared_ptr<Counted>> lines;
  for (int rank = 0; rank < kNodes * 8; ++rank)
    workers.adopt(lines.emplace_back(std::make_shared<Counted>()), hello_of(rank), {});
  const auto start = std::chrono::steady_clock::now();
  workers.assign({.plan = wide_plan(kNodes), .source = {}});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  MESSAGE("an assignment of ", lines.front()->bytes, " bytes to each of ", lines.size(), " ranks: ", took.count(),
          " s");
  for (const auto& line : lines) CHECK(line->bytes == lines.front()->bytes);
  CHECK(took.count() < 10);
}

}  // namespace
}  // namespace espalier::launcher
