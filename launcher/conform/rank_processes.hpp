// The processes of a generation's ranks, and how they end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/conform/stage.hpp"

namespace espalier::launcher::conform {

inline std::string of_rank(int rank) { return "rank " + std::to_string(rank); }

class RankProcesses {
 public:
  RankProcesses(Stage& stage, int size) : stage_(stage), size_(size) {}

  // Starts them by `run`. `lost`: ranks could not be played with, for no fault of theirs.
  void start(const std::function<std::unique_ptr<Ranks>(RanksCallbacks)>& run,
             std::function<void(const std::string& why)> lost);
  // The rank has this process number, as its hello says. Throws Error when it can be none of a worker.
  void named(int rank, int process);

  bool any_ended() const { return !codes_.empty(); }
  bool ended() const { return static_cast<int>(codes_.size()) == size_; }
  bool has_ended(int rank) const { return codes_.contains(rank); }
  std::string how_ended(int rank) const;  // "rank 1 ended with code 3"
  std::string how_first_ended() const { return how_ended(codes_.begin()->first); }

  void kill(int rank);  // SIGKILL to one
  void signal(int number) const { ranks_->signal(number); }
  void drop() { ranks_.reset(); }  // SIGKILL to all
  // Each waits until all have ended, at most the stage's patience. Throws Failure when they do not, or end otherwise.
  void ends();           // whatever their codes, but by no crash
  void leaves_well();    // with code 0
  void leaves_failed();  // by themselves, with another code than 0 and not by a signal

 private:
  Stage& stage_;
  const int size_;
  std::map<int, int> codes_, processes_;  // by rank
  std::string lost_;                      // why the ranks could not be played with
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace espalier::launcher::conform
