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
  backward,         // gradients of the inputs of `unit`, or of all units
  weight_gradient,  // gradients of the parameters of `unit`, or of all units: what backward put off
  send_gradient,
  reduce,         // starts the sum of the gradient of `unit` over the replicas of the stage
  finish_reduce,  // waits for it
  send_tied,      // rows [first, first + count) of the tied table's gradient of `unit` to `peer`; does not wait
  receive_tied,   // the other end's rows for `unit`
  add_tied,       // adds received rows to the gradient of `unit`, once all rows sent have left
  agree,          // all ranks exchange norms, losses and control flags
  update,         // optimizer step on `unit`
  gather,         // ZeRO-1: starts to exchange the parameters of `unit` among the replicas
  finish_gather,
};

struct Op {
  OpKind kind = OpKind::forward;
  int micro_batch = -1;
  int unit = -1;  // backward, weight_gradient: -1 means all units of the rank, the last first
  int peer = -1;
  int first = 0, count = 0;  // samples, counted in the whole micro-batch; tied: rows of the whole table
  bool operator==(const Op&) const = default;
};

// How a step is to be made beside the plan.
struct ScheduleOptions {
  std::string name = "1f1b";
  bool zero1 = false;
  // A unit's weights come right after its inputs: what was computed again for them must not be kept for all units.
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
// The list of one rank only: in a large world nobody needs the others'.
std::vector<Op> make_operations(const Layout& layout, const ScheduleOptions& options, int rank);

// Runs the lists against each other: one sentence per problem (deadlock, lost or unexpected message, missing or
// repeated work, wrong order); empty when the schedule is sound.
std::vector<std::string> check(const Schedule& schedule);

// Of a transfer: which way its message goes.
Lane lane_of(const Op& op);
bool is_send(OpKind kind);
bool is_receive(OpKind kind);

// Whom rank `self` exchanges messages with in these operations of its own.
Peers peers(const std::vector<Op>& ops, int self);

// "backward", "send activation": one word or two.
std::string describe(OpKind kind);
std::string describe(const Op& op);
// One block per rank, one operation per line.
std::string describe(const Schedule& schedule);

// Sees each operation that a rank executes, on its thread: the profiler.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void begin(const Op& op) = 0;
  // What a forward, a backward or an add_tied needs from other ranks is there; what came before was waiting.
  virtual void arrived() = 0;
  // Of an operation that a device does in other times than this rank takes: these. Before end().
  virtual void held(std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end) = 0;
  virtual void end(const Op& op) = 0;
};

}  // namespace espalier::torchrt
