// A training step as data: one list of operations per rank, which the executor runs in order. Pure.
#pragma once

#include <string>
#include <vector>

#include "torchrt/layout.hpp"

namespace espalier::torchrt {

enum class OpKind {
  receive_activation,  // samples [first, first + count) of the micro-batch from `peer`
  forward,             // all units of the rank, on its samples
  send_activation,     // does not wait for the receiver
  receive_gradient,
  backward,
  send_gradient,
  reduce,  // sum the gradient of `unit` over the replicas of the stage
  agree,   // all ranks exchange norms, losses and control flags
  update,  // optimizer step on `unit`
};

struct Op {
  OpKind kind = OpKind::forward;
  int micro_batch = -1;
  int unit = -1;
  int peer = -1;
  int first = 0, count = 0;  // samples, counted in the whole micro-batch
  bool operator==(const Op&) const = default;
};

struct Schedule {
  Layout layout;
  std::vector<std::vector<Op>> ranks;
};

// "1f1b": one forward, one backward, at most as many micro-batches in flight as stages remain.
// "gpipe": all forwards, then all backwards. Backwards come in micro-batch order in both, so that gradients are summed
// in the same order. Throws Error for any other name.
Schedule make_schedule(const Layout& layout, const std::string& name);

// Runs the lists against each other: one sentence per problem (deadlock, lost or unexpected message, missing or
// repeated work, wrong order); empty when the schedule is sound.
std::vector<std::string> check(const Schedule& schedule);

std::string describe(const Op& op);
// One block per rank, one operation per line.
std::string describe(const Schedule& schedule);

}  // namespace espalier::torchrt
