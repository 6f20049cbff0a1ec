// A training step as data: one list of operations per rank, which the executor runs in order. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/layout.hpp"

namespace espalier::torchrt {

enum class OpKind : std::uint8_t {
  receive_activation,  // samples [first, first + count) of the micro-batch from `peer`
  forward,             // all units of the rank, on its samples
  send_activation,     // does not wait for the receiver
  receive_gradient,
  backward,  // gradients of the inputs of `unit`, or of all units
  // Gradients of the parameters of `unit`, or of all units, which backward left out.
  weight_gradient,
  send_gradient,
  reduce,         // starts the sum of the gradient of `unit` over the replicas of the stage
  finish_reduce,  // waits for the sum
  send_tied,      // rows [first, first + count) of the tied table's gradient of `unit` to `peer`; does not wait
  receive_tied,   // receives the other copy's rows for `unit`
  add_tied,       // adds received rows to the gradient of `unit`, after its send of these rows
  agree,          // all ranks exchange norms, losses and control flags
  update,         // optimizer step on `unit`
  gather,         // ZeRO-1: starts to exchange the parameters of `unit` among the replicas
  finish_gather,
};

struct Op {
  OpKind kind = OpKind::forward;
  int micro_batch = -1;
  int unit = -1;  // backward, weight_gradient: -1 means all units of the rank, the last one first
  int peer = -1;
  int first = 0, count = 0;  // samples of the whole micro-batch; tied: rows of the whole table
  bool operator==(const Op&) const = default;
};

// Settings of a step's schedule beside the plan.
struct ScheduleOptions {
  std::string name = "1f1b";
  bool zero1 = false;
  // Each unit's weight gradient then comes right after its backward, because its recomputed
  // activations must not be kept for all units.
  bool recompute = false;
  // Rows of the tied embedding table; 0: the embeddings are not tied. At most `tied_block_rows` rows travel in one
  // message.
  int tied_rows = 0, tied_block_rows = 1 << 20;
};

struct Schedule {
  Layout layout;
  ScheduleOptions options;
  std::vector<std::vector<Op>> ranks;
};

// "1f1b": one forward, one backward, at most as many micro-batches in flight as stages remain.
// "gpipe": all forwards, then all backwards. Backwards come in micro-batch order in both. Throws Error for any other
// name.
Schedule make_schedule(const Layout& layout, const ScheduleOptions& options);
// The list of one rank only: in a large world a rank does not need the other lists.
std::vector<Op> make_operations(const Layout& layout, const ScheduleOptions& options, int rank);

// Runs the lists against each other. Returns one sentence per problem: a deadlock, a lost or
// unexpected message, missing or repeated work, a wrong order. Empty when the schedule is sound.
std::vector<std::string> check(const Schedule& schedule);

// The direction of a transfer's message.
Lane lane_of(const Op& op);
bool is_send(OpKind kind);
bool is_receive(OpKind kind);

// The ranks with which rank `self` exchanges messages in `ops`, its own list.
Peers peers(const std::vector<Op>& ops, int self);

// "backward", "send activation": one word or two.
std::string describe(OpKind kind);
std::string describe(const Op& op);
// One block per rank, one operation per line.
std::string describe(const Schedule& schedule);

// Sees each operation that a rank executes, on the rank's thread. The profiler is one.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void begin(const Op& op) = 0;
  // The data that a forward, a backward or an add_tied needs from other ranks has arrived. The time
  // before was waiting.
  virtual void arrived() = 0;
  // The times of an operation on an imitated device, which replace the measured ones. Called before
  // end().
  virtual void held(std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end) = 0;
  virtual void end(const Op& op) = 0;
};

}  // namespace espalier::torchrt
