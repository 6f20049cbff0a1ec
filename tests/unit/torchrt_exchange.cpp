// A hand-off's messages, several at once, between ranks that are threads.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_transfer_cases.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/handoff/exchange.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Where the ranks meet. A message moves when both its sides are there, from the sender's memory at
// that moment.
class Meeting {
 public:
  using Key = std::tuple<int, int, int>;  // from, to, tag

  void come(const Key& key, bool sends, Buffer buffer) {
    const std::lock_guard lock(mutex_);
    auto& [send, receive] = messages_[key];
    Side& mine = sends ? send : receive;
    mine.buffer = buffer;
    mine.there = true;
    if (!send.there || !receive.there) return;
    if (send.buffer.bytes() == receive.buffer.bytes()) {
      std::memcpy(receive.buffer.data, send.buffer.data, send.buffer.bytes());
      if (std::get<2>(key) == damaged_) static_cast<char*>(receive.buffer.data)[send.buffer.bytes() / 2] ^= 1;
    } else sizes_agree_ = false;
    send.done = receive.done = true;
    changed_.notify_all();
  }
  bool done(const Key& key) {
    const std::lock_guard lock(mutex_);
    return messages_[key].first.done;
  }
  void wait(const Key& key) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return messages_[key].first.done; }))
      throw Error("nobody sends");
  }
  bool sizes_agree() const { return sizes_agree_; }
  // Damages one bit of the message with this tag.
  void damage(int tag) { damaged_ = tag; }

 private:
  struct Side {
    Buffer buffer;
    bool there = false, done = false;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::pair<Side, Side>> messages_;
  bool sizes_agree_ = true;
  int damaged_ = -1;
};

class Received : public Pending {
 public:
  Received(Meeting& meeting, const Meeting::Key& key) : meeting_(meeting), key_(key) {}
  void wait() override { meeting_.wait(key_); }
  bool poll() override { return meeting_.done(key_); }

 private:
  Meeting& meeting_;
  Meeting::Key key_;
};

class MeetingTransport : public Transport {
 public:
  MeetingTransport(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  void connect(const Peers&) override {}
  void post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) override {
    const Meeting::Key key{rank_, to.peer, to.tag};
    posts_[key] = std::move(keep);
    meeting_.come(key, true, buffer);
  }
  std::unique_ptr<Pending> start_receive(Buffer buffer, const Address& from) override {
    const Meeting::Key key{from.peer, rank_, from.tag};
    meeting_.come(key, false, buffer);
    return std::make_unique<Received>(meeting_, key);
  }
  void drain() override {
    for (const auto& [key, keep] : posts_) meeting_.wait(key);
    posts_.clear();
  }
  void poll() override {
    std::erase_if(posts_, [&](const auto& post) { return meeting_.done(post.first); });
  }
  void abort() override {}

 private:
  Meeting& meeting_;
  int rank_;
  std::map<Meeting::Key, std::shared_ptr<const void>> posts_;
};

}  // namespace

TEST_CASE("ranks that exchange several messages at once end with their state in place") {
  std::mt19937 random(21);
  int messages = 0, forwarded = 0;
  for (int round = 0; round < 25; ++round) {
    const ModelConfig model = random_transfer_model(random);
    TransferRequest request;
    request.before = random_transfer_plan(random, model.layers);
    request.after = random_transfer_plan(random, model.layers);
    request.zero1_before = request.zero1_after = round % 2 == 0;
    request.dtype = round % 3 == 0 ? DataType::bfloat16 : DataType::float32;
    request.message_bytes = 3000;
    CAPTURE(describe(request.before));
    CAPTURE(describe(request.after));
    const TransferPlan plan(model, request);
    const Elements elements(model, request.dtype);
    std::map<MemoryId, std::vector<char>> memories, expected;
    for (const bool old : {true, false}) {
      const GenerationLayout& generation = old ? plan.groups().before() : plan.groups().after();
      for (std::size_t r = 0; r < generation.layout.ranks.size(); ++r)
        for (const int unit : generation.layout.ranks[r].units) {
          const MemoryId memory{old, static_cast<int>(r), unit};
          expected[memory] = elements.state(generation, memory.rank, unit);
          memories[memory] = old ? expected[memory] : std::vector<char>(expected[memory].size(), 0);
        }
    }
    Meeting meeting;
    std::vector<std::thread> ranks;
    std::vector<std::string> failures(request.before.ranks().size() + request.after.ranks().size());
    for (std::size_t party = 0; party < failures.size(); ++party)
      ranks.emplace_back([&, party] {
        try {
          MeetingTransport transport(meeting, static_cast<int>(party));
          const auto device = make_cpu_device();
          const auto operations = message_operations(plan, plan.messages(), static_cast<int>(party));
          ExchangeStages stages(*device, operations);
          const auto memory_of = [&](const MemoryId& memory) { return memories.at(memory).data(); };
          const auto damaged = exchange(transport, *device, operations, memory_of, stages);
          if (!damaged.empty()) failures[party] = "damaged";
        } catch (const std::exception& error) {
          failures[party] = error.what();
        }
      });
    for (std::thread& rank : ranks) rank.join();
    for (const std::string& failure : failures) REQUIRE(failure == "");
    CHECK(meeting.sizes_agree());
    for (const Message& message : plan.messages()) {
      ++messages;
      forwarded += message.after >= 0;
      const StateShard& shard = plan.shard(message.to);
      const std::vector<char>& memory = memories.at(message.to);
      for (const Block& block : blocks(plan.fragment(message.piece), message.piece.first, message.piece.bytes, shard))
        for (std::size_t run = 0; run < block.count; ++run) {
          const std::size_t at = block.at + run * block.stride;
          REQUIRE(std::memcmp(memory.data() + at, expected.at(message.to).data() + at, block.run) == 0);
        }
    }
  }
  CHECK(messages > 100);
  CHECK(forwarded > 10);
}

namespace {

// Nine messages from one rank to another, of two runs of bytes each.
struct NineMessages {
  NineMessages() {
    for (int number = 0; number < 9; ++number) {
      MessageOperation operation;
      operation.number = number;
      operation.bytes = 100;
      operation.peer = 1;
      operation.sends = true;
      operation.blocks = {{0, 50, 2, 200}};
      sends.push_back(operation);
      operation.peer = 0;
      operation.sends = false;
      receives.push_back(operation);
    }
  }
  // Returns the messages that the receiver reports as damaged.
  std::vector<std::size_t> move(Meeting& meeting, char* target) {
    std::thread sender([&] {
      MeetingTransport transport(meeting, 0);
      const auto device = make_cpu_device();
      ExchangeStages stages(*device, sends);
      exchange(
          transport, *device, sends, [&](const MemoryId&) { return from.data(); }, stages);
    });
    MeetingTransport transport(meeting, 1);
    const auto device = make_cpu_device();
    ExchangeStages stages(*device, receives);
    const auto damaged = exchange(
        transport, *device, receives, [target](const MemoryId&) { return target; }, stages);
    sender.join();
    return damaged;
  }
  std::vector<char> from = std::vector<char>(5000, 'x');
  std::vector<MessageOperation> sends, receives;
};

}  // namespace

TEST_CASE("what arrives for nobody is dropped, and keeps no one waiting") {
  Meeting meeting;
  CHECK(NineMessages().move(meeting, nullptr).empty());
}

TEST_CASE("one bit that changed on the way is noticed, and the message named") {
  std::vector<char> to(5000, '-');
  Meeting meeting;
  meeting.damage((1 << 20) + 1 + 6);
  CHECK(NineMessages().move(meeting, to.data()) == std::vector<std::size_t>{6});
}
