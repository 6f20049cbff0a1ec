// One rank's messages of a hand-off, several at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/handoff/transfer/operations.hpp"

namespace espalier::torchrt {

// Where an allocation is mapped; null: what is received for it is dropped.
using MemoryOf = std::function<char*(const MemoryId&)>;

// Memory for messages whose bytes lie apart, used again and again; at most 4 to send from and 4 to receive into. Made
// before the pause, since memory that nobody has touched yet is slow. For exchanges of the `operations` it is made for,
// or of parts of them, one after the other.
class ExchangeStages {
 public:
  ExchangeStages(Device& device, const std::vector<MessageOperation>& operations);

 private:
  friend class Exchange;
  using Pool = std::vector<std::shared_ptr<Allocation>>;

  // Null: all are in use.
  std::shared_ptr<Allocation> take(Pool& pool, std::size_t bytes);

  Device& device_;
  Pool outgoing_, incoming_;
};

// Whom `operations` of one rank exchange messages with.
Peers peers(const std::vector<MessageOperation>& operations);

// Sends and receives all of `operations`, in their order, as far as each waits for another, and returns when everything
// is in its place and has left. All ranks of the transport's world do so with theirs. Returns the places in
// `operations` of what arrived other than it left, by checksums; in host memory only: GPUs' links check themselves, and
// sums made on the host would take longer than what they check. Throws Error.
std::vector<std::size_t> exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
                                  const MemoryOf& memory_of, ExchangeStages& stages);

}  // namespace espalier::torchrt
