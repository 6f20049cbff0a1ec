// The interface of all communication of device memory between ranks: groups that reduce, and
// transfers from one rank to another. Backends: MPI (mpi_*.cpp, host memory) and NCCL (nccl_*.cpp,
// GPUs).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// An operation under way. Its buffers must stay untouched until it is done. MPI: destroying an
// unfinished operation waits for it, unless an exception is being thrown, because then the peer may
// never answer. NCCL: destroying it does not wait.
class Pending {
 public:
  virtual ~Pending() = default;
  // MPI: returns when the operation is done. NCCL: the compute stream waits, the host does not.
  virtual void wait() = 0;
  // Makes progress without waiting; true when it is done.
  virtual bool poll() = 0;
};

// Ranks that reduce together. Collective: all members make the same calls in the same order. For
// one thread. Throws Error when the backend reports one and when a call would wait after abort().
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;  // among the members
  virtual int size() const = 0;
  // In place. The values are added in the members' order, so the result does not depend on how the
  // group is spread over machines, unless make_fabric() was told that the order is of no
  // importance. Every member gets the same bits. In this order, bfloat16 is added in float32 and
  // rounded once. Any type.
  virtual void sum(Buffer buffer) = 0;
  virtual void max(Buffer buffer) = 0;
  // In place, added in any order. float32, float64 or int64.
  virtual std::unique_ptr<Pending> start_sum(Buffer buffer) = 0;
  // `parts` gives each member's part of `all`, in the members' order. The parts ascend without a
  // gap and cover `all`; they may be empty. Afterwards this member's own part of `all` holds the
  // sum. The rest of `all` is undefined.
  virtual std::unique_ptr<Pending> start_reduce_scatter(Buffer all, std::span<const Range> parts) = 0;
  // Each member gives its own part of `all` and gets the other parts. Any type.
  virtual std::unique_ptr<Pending> start_gather(Buffer all, std::span<const Range> parts) = 0;
  // From now on no member waits for another. For errors, when peers may be gone.
  virtual void abort() = 0;
};

// The direction of a message through the pipeline. Two ranks receive the messages of one lane in
// the order in which they were sent. Lanes never wait for each other. The `return` lanes serve chunks whose
// successor is on an earlier stage: activations there, and their gradients.
enum class Lane { forward, backward, forward_return, backward_return };

// The message's target, or its source.
struct Address {
  int peer = 0;
  Lane lane = Lane::forward;
  int tag = 0;
};

// The ranks with which messages are exchanged, by lane.
using Peers = std::map<Lane, std::set<int>>;

// Messages from one rank of the world to another. For one thread. Throws Error.
class Transport {
 public:
  virtual ~Transport() = default;
  // Exchanges one message with each peer and waits for it. The first message between two ranks
  // makes both wait for their connection. In the middle of a step such waits could form a circle;
  // in a pause they would lengthen it. Collective among the named ranks: if A names B, B names A in
  // the same lane.
  virtual void connect(const Peers& peers) = 0;
  // Does not wait for the receiver. `keep` is held until the message has left. The memory must stay
  // unchanged until then.
  virtual void post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) = 0;
  // The message arrives in `buffer`, perhaps before wait() is called.
  virtual std::unique_ptr<Pending> start_receive(Buffer buffer, const Address& from) = 0;
  // Waits until all posted messages have left, and releases their `keep`s.
  virtual void drain() = 0;
  // Lets operations under way make progress.
  virtual void poll() = 0;
  virtual void abort() = 0;
};

}  // namespace espalier::torchrt
