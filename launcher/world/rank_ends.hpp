// Which ranks of a generation have ended, and the exit code of all: that of the first that failed. Pure.
#pragma once

#include <vector>

namespace espalier::launcher {

class RankEnds {
 public:
  explicit RankEnds(std::size_t ranks) : ended_(ranks, false), left_(static_cast<int>(ranks)) {}

  void end(int rank, int code) {
    ended_[static_cast<std::size_t>(rank)] = true;
    --left_;
    blame(code);
  }
  // The generation ends of this code, unless it ends of another one already.
  void blame(int code) {
    if (code_ == 0) code_ = code;
  }
  bool ended(int rank) const { return ended_[static_cast<std::size_t>(rank)]; }
  int left() const { return left_; }  // ranks that have not ended
  int code() const { return code_; }

 private:
  std::vector<bool> ended_;  // by rank
  int left_, code_ = 0;
};

}  // namespace espalier::launcher
