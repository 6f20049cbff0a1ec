// How all ranks agree on the state of a checkpoint. Each rank gives numbers, which are summed over
// all ranks once per step. Pure.
//
//   idle --due, begin()--> writing --all parts done--> committing --done--> idle
//                             '-----some part failed------'-- abandoned: rank 0 clears up
#pragma once

#include <cstdint>

namespace espalier::torchrt {

// One rank's contribution, or the sum of all.
struct CheckpointVote {
  double done = 0;    // this rank's current work has ended, with or without success
  double failed = 0;  // the work failed
  double asked = 0;   // this rank wants a checkpoint after this step
};

enum class CheckpointPhase { idle, writing, committing, clearing };

// The sums are the same on every rank, so this object's state is too.
class CheckpointAgreement {
 public:
  explicit CheckpointAgreement(int ranks) : ranks_(ranks) {}

  CheckpointPhase phase() const { return phase_; }
  std::int64_t step() const { return step_; }  // of the checkpoint under way
  // True after an advance() that ended a checkpoint with success.
  bool committed() const { return committed_; }

  void begin(std::int64_t step);  // only when idle
  // Takes the votes' sum. While writing, every rank votes. While committing or clearing, only rank
  // 0 has work and votes.
  void advance(const CheckpointVote& sum);

 private:
  int ranks_;
  CheckpointPhase phase_ = CheckpointPhase::idle;
  std::int64_t step_ = 0;
  bool committed_ = false;
};

}  // namespace espalier::torchrt
