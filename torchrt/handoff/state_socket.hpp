// Hands out a rank's state on its node: an abstract Unix socket that passes descriptors. Each side
// checks with the kernel that the other runs as the same user.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// The key of an offered memory. `guest` < 0: the state of a unit that the rank holds. `guest` >= 0:
// the state of a unit of new rank `guest`, which this rank has written into that rank's own memory.
struct StateKey {
  int unit = 0;
  int guest = -1;
  auto operator<=>(const StateKey&) const = default;
};

// Serves from a thread of its own until destroyed. Methods may be called from any thread.
class StateServer {
 public:
  explicit StateServer(const std::string& address);  // throws Error, also when the address is taken
  ~StateServer();
  StateServer(const StateServer&) = delete;
  StateServer& operator=(const StateServer&) = delete;

  // The caller keeps `fd`, which must live until withdraw() or the server's end.
  void offer(const StateKey& key, int fd, std::uint64_t bytes);
  void withdraw(const StateKey& key);
  // Tells clients the state's step: the state is the one after `step`; -1: it is being changed.
  void mark(std::int64_t step);

 private:
  struct Offer {
    int fd = -1;
    std::uint64_t bytes = 0;
  };
  void serve();
  void answer(int connection);

  UniqueFd listener_, stop_;
  std::mutex mutex_;
  std::map<StateKey, Offer> offers_;
  std::int64_t step_ = -1;
  std::thread thread_;
};

struct FetchedState {
  UniqueFd fd;
  std::uint64_t bytes = 0;
  std::int64_t step = -1;
};

// Throws Error when no server of this user is there, the state is not on offer, or 5 s pass.
FetchedState fetch_state(const std::string& address, const StateKey& key);

}  // namespace espalier::torchrt
