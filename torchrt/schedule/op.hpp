// A training step as data: one list of operations per rank, which the executor runs in order. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/core/pipeline/schedule.hpp"
#include "torchrt/comm/group.hpp"
#include "torchrt/layout.hpp"

namespace espalier::torchrt {

enum class OpKind : std::uint8_t {
  receive_activation,  // samples [first, first + count) of the micro-batch from `peer`; `forward` waits for them
  forward,             // all units of the chunk, on the rank's samples
  send_activation,     // does not wait for the receiver
  receive_gradient,
  backward,  // gradients of the inputs of `unit`, or of all units of the chunk
  // Gradients of the parameters of `unit`, or of all units of the chunk, which backward left out.
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
  int unit = -1;  // backward, weight_gradient: -1 means all units of the chunk, the last one first
  int peer = -1;
  int first = 0, count = 0;  // samples of the whole micro-batch; tied: rows of the whole table
  // Compute: the chunk. Activations and gradients: this rank's chunk, whose input or output they are. Else -1.
  int chunk = -1;
  // The message goes against the usual direction: an activation to an earlier stage, a gradient to a later one.
  bool returns = false;
  bool operator==(const Op&) const = default;
};

// Settings of a step's schedule beside the plan.
struct ScheduleOptions {
  std::string name = "1f1b";
  // Used instead of the name where it is made for the plan's stages, chunks and number of micro-batches; may be null.
  std::shared_ptr<const pipeline::Schedule> given;
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

// The order of each stage's computations, as the options say. A name that needs several chunks per stage falls back to
// "1f1b" where the plan has one. Throws Error for an unknown name, and for one that puts its chunks elsewhere.
pipeline::Schedule order_of_work(const Layout& layout, const ScheduleOptions& options);
// All forwards, then all backwards, for chunks anywhere.
pipeline::Schedule forwards_then_backwards(const Layout& layout);

// One rank's operations. Its computations come in the order of `work`. What one rank sends another in one lane is
// received in the order in which it is sent. A message is received one computation earlier than it or a message behind
// it is needed, so that it travels meanwhile. It is never received before an earlier send of its lane, nor before what
// it depends on. So forwards that follow one another receive right before they begin. This takes memory for one message
// more than computations use. Neighbouring chunks of one stage exchange no messages. With recomputing the
// parameters' gradients are computed with the inputs' (W does nothing). Throws Error when `work` is for other chunks or
// another number of micro-batches.
std::vector<Op> lower(const Layout& layout, const ScheduleOptions& options, const pipeline::Schedule& work, int rank);

Schedule make_schedule(const Layout& layout, const ScheduleOptions& options);
// The list of one rank only: in a large world a rank does not need the other lists.
std::vector<Op> make_operations(const Layout& layout, const ScheduleOptions& options, int rank);

// How the messages of a lane meet. `queues`: a lane is a queue, and a transfer ends only when the peer has reached it,
// too (NCCL: a lane has a stream, and a send ends when it is received). `apart`: messages do not wait for each other
// (MPI).
enum class Messages { queues, apart };

// Runs the lists against each other. Returns one sentence per problem: a deadlock, a lost or
// unexpected message, missing or repeated work, a wrong order. Empty when the schedule is sound.
std::vector<std::string> check(const Schedule& schedule, Messages messages = Messages::queues);

// The direction of a transfer's message.
Lane lane_of(const Op& op);
bool is_send(OpKind kind);
bool is_receive(OpKind kind);

// The ranks with which rank `self` exchanges messages in `ops`, its own list.
Peers peers(const std::vector<Op>& ops, int self);

// "backward", "send activation": one word or two.
std::string describe(OpKind kind);
// With `chunked` it names the chunk, too: "forward 3 chunk 1".
std::string describe(const Op& op, bool chunked = false);
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
