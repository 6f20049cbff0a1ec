// Where a rank's state can be had on its node: an abstract Unix socket that hands out descriptors. Both sides check
// with the kernel that the other is of their own user.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// "espalier-<first 8 characters of the token>-g<generation>-r<rank>"
std::string state_address(const std::string& token, int generation, int rank);

// What is on offer: a unit's state that the rank holds, or (`guest` >= 0) that of new rank `guest`, which the rank has
// written into the guest's own memory.
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

  // `fd` stays the caller's and must live until withdraw() or the end.
  void offer(const StateKey& key, int fd, std::uint64_t bytes);
  void withdraw(const StateKey& key);
  // The state is that after `step`; -1: it is being changed.
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

// Throws Error when nobody of this user serves there, the state is not on offer, or 5 s pass.
FetchedState fetch_state(const std::string& address, const StateKey& key);

}  // namespace espalier::torchrt
