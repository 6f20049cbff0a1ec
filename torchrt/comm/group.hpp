// The narrow interface of all communication between ranks on device memory: groups that reduce, and transfers from one
// rank to another. Backends: MPI (mpi_*.cpp, host memory) and NCCL (nccl_*.cpp, GPUs).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>

#include "torchrt/comm/buffer.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// An operation under way; its buffers must stay untouched until it is done. Destroying one that is not done waits,
// unless an error is on its way through: the peer may never come, and who fails does not communicate again.
class Pending {
 public:
  virtual ~Pending() = default;
  // CPU: returns when it is done. NCCL: the compute stream waits, the host does not.
  virtual void wait() = 0;
  // Makes progress without waiting; true when it is done.
  virtual bool poll() = 0;
};

// Ranks that reduce together. Collective: all members make the same calls in the same order. One thread. Every call
// throws Error when the backend reports one, and after abort().
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;  // among the members
  virtual int size() const = 0;
  // In place, added in the order of the members, so that the result does not depend on how the group is spread over
  // machines; every member gets the same bits. bfloat16 is added in float32 and rounded once. Any type.
  virtual void sum(Buffer buffer) = 0;
  virtual void max(Buffer buffer) = 0;
  // In place, in any order. float32, float64 or int64.
  virtual std::unique_ptr<Pending> start_sum(Buffer buffer) = 0;
  // `parts`: of each member, in their order, ascending and without a gap, covering `all`; they may be empty. Of `all`
  // only the own part holds the sum afterwards, the rest is undefined.
  virtual std::unique_ptr<Pending> start_reduce_scatter(Buffer all, std::span<const Range> parts) = 0;
  // Each member gives its own part of `all` and gets the others'. Any type.
  virtual std::unique_ptr<Pending> start_gather(Buffer all, std::span<const Range> parts) = 0;
  // From now on no member waits for another: for errors, when peers may be gone.
  virtual void abort() = 0;
};

// Which way a message goes through the pipeline. Messages of one lane between two ranks are received in the order of
// their sending; lanes never wait for each other.
enum class Lane { forward, backward };

// Where a message goes to or comes from.
struct Address {
  int peer = 0;
  Lane lane = Lane::forward;
  int tag = 0;
};

// Ranks that messages go to or come from.
using Peers = std::map<Lane, std::set<int>>;

// Point to point between the ranks of the world. One thread; throws Error.
class Transport {
 public:
  virtual ~Transport() = default;
  // Exchanges a message with each of them and waits for it. The first message between two ranks makes both wait until
  // they are connected: in the middle of a step ranks would wait in a circle, in a pause it would last longer.
  // Collective among those named; who names a rank is named by it, in the same lane.
  virtual void connect(const Peers& peers) = 0;
  // Does not wait for the receiver. `keep` is held, and the memory must stay unchanged, until the message has left.
  virtual void post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) = 0;
  // The message lands in `buffer`; it may do so before wait() is called.
  virtual std::unique_ptr<Pending> start_receive(Buffer buffer, const Address& from) = 0;
  // Waits until everything posted has left; nothing is held any more.
  virtual void drain() = 0;
  // Lets what is under way progress.
  virtual void poll() = 0;
  virtual void abort() = 0;
};

}  // namespace espalier::torchrt
