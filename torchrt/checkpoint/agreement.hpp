// How all ranks know where a checkpoint stands, with numbers summed over the ranks once per step. Pure.
//
//   idle --due, begin()--> writing --all parts done--> committing --done--> idle
//                             '-----some part failed------'-- abandoned: rank 0 clears up
#pragma once

#include <cstdint>

namespace espalier::torchrt {

// One rank's contribution, or the sum of all.
struct CheckpointVote {
  double done = 0;    // the rank's present work is over, well or not
  double failed = 0;  // and it went wrong
  double asked = 0;   // somebody wants a checkpoint after this step
};

enum class CheckpointPhase { idle, writing, committing, clearing };

// The same on every rank, as the sums are.
class CheckpointAgreement {
 public:
  explicit CheckpointAgreement(int ranks) : ranks_(ranks) {}

  CheckpointPhase phase() const { return phase_; }
  std::int64_t step() const { return step_; }  // of the checkpoint under way
  // True after advance() brought a checkpoint to its good end.
  bool committed() const { return committed_; }

  void begin(std::int64_t step);  // only when idle
  // writing: every rank votes; committing and clearing: only rank 0 has work and votes.
  void advance(const CheckpointVote& sum);

 private:
  int ranks_;
  CheckpointPhase phase_ = CheckpointPhase::idle;
  std::int64_t step_ = 0;
  bool committed_ = false;
};

}  // namespace espalier::torchrt
