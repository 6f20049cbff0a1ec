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

// The address of an allocation's mapping; null: data received for it is dropped.
using MemoryOf = std::function<char*(const MemoryId&)>;

// Memory for messages whose bytes lie apart: at most 4 stages to send from and 4 to receive into,
// used again and again. Make it before the pause, because the first touch of new memory is slow. It
// serves exchanges of the `operations` for which it was made, or of parts of them, one exchange
// after the other. `old_in_host`: the old generation's memory is host memory, from which a GPU's transport cannot send:
// these messages are copied to a stage too.
class ExchangeStages {
 public:
  ExchangeStages(Device& device, const std::vector<MessageOperation>& operations, bool old_in_host = false);

 private:
  friend class Exchange;
  using Pool = std::vector<std::shared_ptr<Allocation>>;

  bool staged(const MessageOperation& operation) const;
  // Null: all are in use.
  std::shared_ptr<Allocation> take(Pool& pool, std::size_t bytes);

  Device& device_;
  bool old_in_host_;
  Pool outgoing_, incoming_;
};

// The ranks with which `operations` of one rank exchange messages.
Peers peers(const std::vector<MessageOperation>& operations);

// Sends and receives all of one rank's `operations`. Operations that wait for each other keep their
// order. Returns when everything is in its place and all messages have left. All ranks of the
// transport's world call it with their own operations. Returns the places in `operations` of the
// messages that arrived damaged, by checksums. Only host memory is checked: GPUs' links check
// themselves, and the host would take longer for a checksum than the link for the message. Throws
// Error.
std::vector<std::size_t> exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
                                  const MemoryOf& memory_of, ExchangeStages& stages);

}  // namespace espalier::torchrt
