// Whether lists that a user or the launcher gives can run to their end. Pure.
#pragma once

#include "torchrt/device/device.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Between GPUs NCCL carries the messages, else MPI (comm/fabric.hpp).
constexpr Messages messages_of(DeviceKind kind) {
  return kind == DeviceKind::cuda ? Messages::queues : Messages::apart;
}

// Runs all ranks' operations with `options.given`, which fits the plan, against each other (check()). Throws Error with
// the first problem. Lists of more than 20,000 operations in all are not looked at: training stands meanwhile, and
// these take some milliseconds.
void must_run(const ScheduleOptions& options, const Layout& layout, Messages messages);

}  // namespace espalier::torchrt
