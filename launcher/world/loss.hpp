// How a generation ended before its time, and what is known about that.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

struct Loss {
  std::string why;
  int code = 1;            // the job's exit code, should it end of this
  bool own = false;        // a worker said that it failed by itself: the program's fault, no loss
  bool memory = false;     // ... for it got no memory
  std::set<GpuId> died;    // whose ranks ended without a word or fell silent
  std::set<GpuId> absent;  // whose ranks ended before they said hello: nothing is known to have used those GPUs
  // A rank server is gone, and its ranks with it: no GPU is to blame.
  bool of_server = false;
};

// What ranks, their servers and workers tell of a generation's end. It comes piece by piece and in any order: the loss
// is told once all have had a moment. Pure.
class LossEvidence {
 public:
  explicit LossEvidence(std::vector<GpuId> gpus) : gpus_(std::move(gpus)) {}  // by rank

  void rank_ended(int code);
  void all_ended(int code) { exit_code_ = code; }
  void absent(int rank) { absent_.insert(rank); }    // it has ended before its hello
  void aborted(int rank) { aborted_.insert(rank); }  // it called MPI_Abort
  void server_gone() { server_gone_ = true; }
  void died(int rank, const std::string& why) { died_.emplace(rank, why); }  // without a word
  // A worker has said why it leaves. `text`: that, and which worker it is.
  void last_words(const std::string& text, const wire::Failed& words);

  std::optional<int> exit_code() const { return exit_code_; }  // of all ranks, once they have ended
  // What has happened, by all that is known. `why`: what was noticed first.
  Loss loss(const std::string& why) const;

 private:
  std::vector<GpuId> gpus_;  // by rank
  std::map<int, std::string> died_;
  std::set<int> absent_, aborted_;
  int first_code_ = 0;  // of the first rank whose exit code was not 0
  std::optional<int> exit_code_;
  std::string last_words_;
  bool own_failure_ = false, lacked_memory_ = false, server_gone_ = false;
};

}  // namespace espalier::launcher
