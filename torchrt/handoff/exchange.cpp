#include "torchrt/handoff/exchange.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "planner/core/error.hpp"
#include "torchrt/checksum.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

constexpr Lane kLane = Lane::forward;
// Above the tags of activations and gradients.
constexpr int kChecksumTag = 1 << 20;
constexpr int kFirstTag = kChecksumTag + 1;
// The most receives under way, and the most stages for sends.
constexpr std::size_t kWindow = 4;

// Bytes of a checksum between two polls of the messages under way: some 0.1 ms.
constexpr std::size_t kChecked = std::size_t{1} << 20;

bool in_one_run(const MessageOperation& operation) {
  return operation.blocks.size() == 1 && operation.blocks[0].count == 1;
}

}  // namespace

bool ExchangeStages::staged(const MessageOperation& operation) const {
  return !in_one_run(operation) || (old_in_host_ && operation.sends && operation.memory.old);
}

ExchangeStages::ExchangeStages(Device& device, const std::vector<MessageOperation>& operations, bool old_in_host)
    : device_(device), old_in_host_(old_in_host) {
  for (const bool sends : {false, true}) {
    std::size_t count = 0, bytes = 0;
    for (const MessageOperation& operation : operations)
      if (operation.sends == sends && staged(operation)) {
        ++count;
        bytes = std::max(bytes, operation.bytes);
      }
    for (count = std::min(count, kWindow); count > 0; --count)
      (sends ? outgoing_ : incoming_).push_back(device_.allocate(bytes, "espalier-stage"));
  }
}

std::shared_ptr<Allocation> ExchangeStages::take(Pool& pool, std::size_t bytes) {
  for (std::shared_ptr<Allocation>& stage : pool)
    if (stage.use_count() == 1) {
      if (stage->bytes() < bytes) {
        device_.finish_copies();  // one from the old stage may still be under way
        stage = device_.allocate(bytes, "espalier-stage");
      }
      return stage;
    }
  if (pool.size() == kWindow) return nullptr;
  return pool.emplace_back(device_.allocate(bytes, "espalier-stage"));
}

class Exchange {
 public:
  Exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
           const MemoryOf& memory_of, ExchangeStages& stages)
      : transport_(transport),
        device_(device),
        operations_(operations),
        memory_of_(memory_of),
        receives_(operations.size()),
        stages_(stages),
        checks_(device.kind() == DeviceKind::cpu),
        checksums_(checks_ ? operations.size() : 0) {}

  std::vector<std::size_t> run() {
    for (; begun_ < operations_.size(); ++begun_) operations_[begun_].sends ? send(begun_) : receive(begun_);
    while (oldest_ < operations_.size()) finish(oldest_++);
    device_.finish_copies();
    std::vector<std::size_t> damaged;
    if (checks_) damaged = compare_checksums();
    transport_.drain();
    return damaged;
  }

 private:
  struct Receive {
    std::unique_ptr<Pending> pending;
    std::shared_ptr<Allocation> stage;
    const char* data = nullptr;
  };

  // Elements of the transport have at least two bytes. So has every element of the state.
  static Buffer buffer(char* data, std::size_t bytes) {
    ESPALIER_INVARIANT(bytes % 2 == 0);
    return {data, bytes / 2, DataType::bfloat16};
  }
  static Address address(const MessageOperation& operation) {
    return {operation.peer, kLane, kFirstTag + operation.number};
  }

  void send(std::size_t i) {
    const MessageOperation& operation = operations_[i];
    if (operation.after >= 0) finish(static_cast<std::size_t>(operation.after));
    for (Backoff backoff; !room_to_send();)
      if (finish_arrived()) backoff = {};
      else backoff.pause();
    char* const memory = memory_of_(operation.memory);
    std::shared_ptr<Allocation> stage;
    char* data = memory + operation.blocks[0].at;
    if (stages_.staged(operation)) {
      stage = stages_.take(stages_.outgoing_, operation.bytes);
      ESPALIER_INVARIANT(stage != nullptr);  // the window has one stage for each message
      data = static_cast<char*>(stage->data());
      std::size_t done = 0;
      for (const Block& block : operation.blocks) {
        device_.copy_runs(data + done, block.run, memory + block.at, block.stride, block.run, block.count);
        done += block.bytes();
      }
    }
    note_checksum(i, data);  // before post(), which then finds the data in the cache
    const auto held = std::make_shared<std::shared_ptr<Allocation>>(std::move(stage));
    leaving_.push_back(held);
    transport_.post(buffer(data, operation.bytes), address(operation), held);
  }

  bool room_to_send() {
    transport_.poll();
    std::erase_if(leaving_, [](const std::weak_ptr<const void>& message) { return message.expired(); });
    return leaving_.size() < kWindow;
  }

  // Finishes the oldest receive. False: it has not arrived.
  bool finish_arrived() {
    while (oldest_ < begun_ && !receives_[oldest_].pending) ++oldest_;
    if (oldest_ == begun_ || !receives_[oldest_].pending->poll()) return false;
    finish(oldest_++);
    return true;
  }

  void receive(std::size_t i) {
    while (under_way_ == kWindow) finish(oldest_++);
    const MessageOperation& operation = operations_[i];
    char* const memory = memory_of_(operation.memory);
    Receive& receive = receives_[i];
    char* target = nullptr;
    if (memory != nullptr && in_one_run(operation)) {
      target = memory + operation.blocks[0].at;
    } else {
      receive.stage = stages_.take(stages_.incoming_, operation.bytes);
      ESPALIER_INVARIANT(receive.stage != nullptr);  // the window has one stage for each message
      target = static_cast<char*>(receive.stage->data());
    }
    receive.data = target;
    receive.pending = transport_.start_receive(buffer(target, operation.bytes), address(operation));
    ++under_way_;
  }

  // Does nothing when operation `i` is a send or has been finished.
  void finish(std::size_t i) {
    Receive receive = std::move(receives_[i]);
    receives_[i] = {};
    if (!receive.pending) return;
    // On a GPU wait() only orders later work of the GPU. It comes last: behind a message that never comes, nothing that
    // waits for the GPU would end.
    for (Backoff backoff; !receive.pending->poll(); backoff.pause()) transport_.poll();
    receive.pending->wait();
    --under_way_;
    note_checksum(i, receive.data);
    char* const memory = memory_of_(operations_[i].memory);
    if (!receive.stage || memory == nullptr) return;
    const char* const packed = static_cast<const char*>(receive.stage->data());
    std::size_t done = 0;
    for (const Block& block : operations_[i].blocks) {
      device_.copy_runs(memory + block.at, block.stride, packed + done, block.run, block.run, block.count);
      done += block.bytes();
    }
  }

  // Polls meanwhile: MPI moves messages only while it is called.
  void note_checksum(std::size_t i, const char* data) {
    if (!checks_) return;
    Checksum sum;
    for (std::size_t done = 0; done < operations_[i].bytes; done += kChecked) {
      sum.add(data + done, std::min(kChecked, operations_[i].bytes - done));
      transport_.poll();
    }
    checksums_[i] = sum.value();
  }

  // Each sender sends each of its receivers one more message: the checksums of all messages, in
  // their order.
  std::vector<std::size_t> compare_checksums() {
    std::map<int, std::vector<std::uint64_t>> sent, received;  // by peer
    std::map<int, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const MessageOperation& operation = operations_[i];
      if (operation.sends) sent[operation.peer].push_back(checksums_[i]);
      else places[operation.peer].push_back(i);
    }
    const auto whole = [](std::vector<std::uint64_t>& sums) {
      return Buffer{sums.data(), sums.size(), DataType::int64};
    };
    std::map<int, std::unique_ptr<Pending>> arrivals;
    for (const auto& [peer, list] : places) {
      received[peer].resize(list.size());
      arrivals[peer] = transport_.start_receive(whole(received[peer]), {peer, kLane, kChecksumTag});
    }
    for (auto& [peer, sums] : sent) transport_.post(whole(sums), {peer, kLane, kChecksumTag}, nullptr);
    std::vector<std::size_t> damaged;
    for (const auto& [peer, list] : places) {
      arrivals[peer]->wait();
      for (std::size_t k = 0; k < list.size(); ++k)
        if (received[peer][k] != checksums_[list[k]]) damaged.push_back(list[k]);
    }
    transport_.drain();  // `sent` is about to be destroyed
    std::sort(damaged.begin(), damaged.end());
    return damaged;
  }

  Transport& transport_;
  Device& device_;
  const std::vector<MessageOperation>& operations_;
  const MemoryOf& memory_of_;
  std::vector<Receive> receives_;  // by operation
  std::size_t begun_ = 0;          // all operations before it have been posted
  std::size_t oldest_ = 0;         // all operations before it are sends or finished
  std::vector<std::weak_ptr<const void>> leaving_;
  std::size_t under_way_ = 0;
  ExchangeStages& stages_;
  const bool checks_;
  std::vector<std::uint64_t> checksums_;  // by operation
};

Peers peers(const std::vector<MessageOperation>& operations) {
  Peers found;
  for (const MessageOperation& operation : operations) found[kLane].insert(operation.peer);
  return found;
}

std::vector<std::size_t> exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
                                  const MemoryOf& memory_of, ExchangeStages& stages) {
  return Exchange(transport, device, operations, memory_of, stages).run();
}

}  // namespace espalier::torchrt
