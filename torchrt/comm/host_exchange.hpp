// Messages between ranks in host memory, beside training and whatever backend it has.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace espalier::torchrt {

// Has a communicator of its own. One thread, that of MPI. Throws PeerError. Collective to make.
class HostExchange {
 public:
  HostExchange();
  // What is under way stays: its memory is kept until the process ends, which it is about to.
  ~HostExchange();
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;

  // Between two ranks messages arrive in the order of their sending. `memory` stays untouched until `done`.
  void send(int peer, std::shared_ptr<const void> memory, const void* data, std::size_t bytes);
  void receive(int peer, std::shared_ptr<const void> memory, void* data, std::size_t bytes);
  // Lets them progress; true when all are done.
  bool poll();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier::torchrt
