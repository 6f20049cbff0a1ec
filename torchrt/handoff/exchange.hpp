// One rank's messages of a hand-off, several at once.
#pragma once

#include <functional>
#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/handoff/transfer/operations.hpp"

namespace espalier::torchrt {

// Where an allocation is mapped; null: what is received for it is dropped.
using MemoryOf = std::function<char*(const MemoryId&)>;

// Sends and receives all of `operations`, in their order, as far as each waits for another, and returns when everything
// is in its place and has left. All ranks of the transport's world do so with theirs. What is not one run of memory is
// staged, in at most 8 messages' memory. Returns the places in `operations` of what arrived other than it left, by
// checksums; in host memory only: GPUs' links check themselves, and sums made on the host would take longer than what
// they check. Throws Error.
std::vector<std::size_t> exchange(Transport& transport, Device& device, const std::vector<MessageOperation>& operations,
                                  const MemoryOf& memory_of);

}  // namespace espalier::torchrt
