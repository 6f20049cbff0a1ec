// Messages in host memory between ranks, independent of training and of its backend.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace espalier::torchrt {

// It has its own communicator. Only for the thread that uses MPI. Throws PeerError. Making it is
// collective.
class HostExchange {
 public:
  HostExchange();
  // Does not wait for messages under way: their memory is kept until the process ends, which is
  // soon.
  ~HostExchange();
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;

  // Two ranks receive messages in the order in which they were sent. `memory` is held until poll()
  // returns true; `data` must stay untouched until then.
  void send(int peer, std::shared_ptr<const void> memory, const void* data, std::size_t bytes);
  void receive(int peer, std::shared_ptr<const void> memory, void* data, std::size_t bytes);
  // Lets the messages make progress. True when all are done.
  bool poll();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier::torchrt
