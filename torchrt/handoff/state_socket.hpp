// Where a rank's state can be had on its node: an abstract Unix socket that hands out descriptors. Both sides check
// with the kernel that the other is of their own user.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "torchrt/device/unique_fd.hpp"
#include "torchrt/handoff/piece.hpp"

namespace espalier::torchrt {

// "espalier-<first 8 characters of the token>-g<generation>-r<rank>"
std::string state_address(const std::string& token, int generation, int rank);

// Serves from a thread of its own until destroyed. Methods may be called from any thread.
class StateServer {
 public:
  explicit StateServer(const std::string& address);  // throws Error, also when the address is taken
  ~StateServer();
  StateServer(const StateServer&) = delete;
  StateServer& operator=(const StateServer&) = delete;

  // `fd` stays the caller's and must live until withdraw() or the end.
  void offer(const Piece& piece, int fd, std::uint64_t bytes);
  void withdraw(const Piece& piece);
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
  std::map<Piece, Offer> offers_;
  std::int64_t step_ = -1;
  std::thread thread_;
};

struct FetchedPiece {
  UniqueFd fd;
  std::uint64_t bytes = 0;
  std::int64_t step = -1;
};

// Throws Error when nobody of this user serves there, the piece is not on offer, or 5 s pass.
FetchedPiece fetch_piece(const std::string& address, const Piece& piece);

}  // namespace espalier::torchrt
