#include "torchrt/handoff/exchange.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "planner/core/error.hpp"
#include "torchrt/checksum.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

// Away from the tags of activations and gradients.
constexpr int kChecksumTag = 1 << 20;
constexpr int kFirstTag = kChecksumTag + 1;
// Receives under way, and stages of sends.
constexpr std::size_t kWindow = 4;

// Memory for messages whose bytes lie apart, used again and again.
class Stages {
 public:
  Stages(Device& device, std::size_t bytes) : device_(device), bytes_(bytes) {}

  // Null: all are in use.
  std::shared_ptr<Allocation> take() {
    for (const std::shared_ptr<Allocation>& stage : stages_)
      if (stage.use_count() == 1) return stage;
    if (stages_.size() == kWindow) return nullptr;
    return stages_.emplace_back(device_.allocate(bytes_, "espalier-stage"));
  }

 private:
  Device& device_;
  std::size_t bytes_;
  std::vector<std::shared_ptr<Allocation>> stages_;
};

class Exchange {
 public:
  Exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
           const MemoryOf& memory_of)
      : transport_(transport),
        device_(device),
        operations_(operations),
        memory_of_(memory_of),
        receives_(operations.size()),
        outgoing_(device, largest(operations)),
        incoming_(device, largest(operations)),
        checks_(device.kind() == DeviceKind::cpu),
        checksums_(checks_ ? operations.size() : 0) {}

  std::vector<std::size_t> run() {
    for (std::size_t i = 0; i < operations_.size(); ++i) operations_[i].sends ? send(i) : receive(i);
    while (oldest_ < operations_.size()) finish(oldest_++);
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

  static std::size_t largest(const std::vector<MessageOperation>& operations) {
    std::size_t bytes = 0;
    for (const MessageOperation& operation : operations) bytes = std::max(bytes, operation.bytes);
    return bytes;
  }

  // Elements of the transport have at least two bytes, and so has every element of the state.
  static Buffer buffer(char* data, std::size_t bytes) {
    ESPALIER_INVARIANT(bytes % 2 == 0);
    return {data, bytes / 2, DataType::bfloat16};
  }
  static Address address(const MessageOperation& operation) {
    return {operation.peer, Lane::forward, kFirstTag + operation.number};
  }

  void send(std::size_t i) {
    const MessageOperation& operation = operations_[i];
    if (operation.after >= 0) finish(static_cast<std::size_t>(operation.after));
    char* const memory = memory_of_(operation.memory);
    if (operation.blocks.size() == 1 && operation.blocks[0].count == 1) {
      char* const data = memory + operation.blocks[0].at;
      transport_.post(buffer(data, operation.bytes), address(operation), nullptr);
      return note_checksum(i, data);
    }
    std::shared_ptr<Allocation> stage = outgoing_.take();
    for (Backoff backoff; !stage; stage = outgoing_.take()) {
      transport_.poll();
      backoff.pause();
    }
    char* const packed = static_cast<char*>(stage->data());
    std::size_t done = 0;
    for (const Block& block : operation.blocks) {
      device_.copy_runs(packed + done, block.run, memory + block.at, block.stride, block.run, block.count);
      done += block.bytes();
    }
    transport_.post(buffer(packed, operation.bytes), address(operation), stage);
    note_checksum(i, packed);
  }

  void receive(std::size_t i) {
    while (under_way_ == kWindow) finish(oldest_++);
    const MessageOperation& operation = operations_[i];
    char* const memory = memory_of_(operation.memory);
    Receive& receive = receives_[i];
    char* target = nullptr;
    if (memory != nullptr && operation.blocks.size() == 1 && operation.blocks[0].count == 1) {
      target = memory + operation.blocks[0].at;
    } else {
      receive.stage = incoming_.take();
      ESPALIER_INVARIANT(receive.stage != nullptr);  // one for each of the window
      target = static_cast<char*>(receive.stage->data());
    }
    receive.data = target;
    receive.pending = transport_.start_receive(buffer(target, operation.bytes), address(operation));
    ++under_way_;
  }

  // Nothing when operation `i` is a send or has been finished.
  void finish(std::size_t i) {
    Receive receive = std::move(receives_[i]);
    receives_[i] = {};
    if (!receive.pending) return;
    receive.pending->wait();
    // On a GPU that ordered only what follows on it.
    for (Backoff backoff; !receive.pending->poll(); backoff.pause()) transport_.poll();
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

  // While messages are under way, which the kernel's buffers keep moving meanwhile.
  void note_checksum(std::size_t i, const char* data) {
    if (checks_) checksums_[i] = checksum(data, operations_[i].bytes);
  }

  // One message more between any two that had some: the sums of all, in their order.
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
      arrivals[peer] = transport_.start_receive(whole(received[peer]), {peer, Lane::forward, kChecksumTag});
    }
    for (auto& [peer, sums] : sent) transport_.post(whole(sums), {peer, Lane::forward, kChecksumTag}, nullptr);
    std::vector<std::size_t> damaged;
    for (const auto& [peer, list] : places) {
      arrivals[peer]->wait();
      for (std::size_t k = 0; k < list.size(); ++k)
        if (received[peer][k] != checksums_[list[k]]) damaged.push_back(list[k]);
    }
    transport_.drain();  // `sent` is about to go
    std::sort(damaged.begin(), damaged.end());
    return damaged;
  }

  Transport& transport_;
  Device& device_;
  const std::vector<MessageOperation>& operations_;
  const MemoryOf& memory_of_;
  std::vector<Receive> receives_;  // by operation
  std::size_t oldest_ = 0;         // all before are finished
  std::size_t under_way_ = 0;
  Stages outgoing_, incoming_;
  const bool checks_;
  std::vector<std::uint64_t> checksums_;  // by operation
};

}  // namespace

std::vector<std::size_t> exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
                                  const MemoryOf& memory_of) {
  return Exchange(transport, device, operations, memory_of).run();
}

}  // namespace espalier::torchrt
