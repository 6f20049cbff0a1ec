#include "torchrt/checkpoint/agreement.hpp"

#include "planner/core/error.hpp"

namespace espalier::torchrt {

void CheckpointAgreement::begin(std::int64_t step) {
  ESPALIER_INVARIANT(phase_ == CheckpointPhase::idle);
  phase_ = CheckpointPhase::writing;
  step_ = step;
}

void CheckpointAgreement::advance(const CheckpointVote& sum) {
  committed_ = false;
  switch (phase_) {
    case CheckpointPhase::idle:
      return;
    case CheckpointPhase::writing:
      if (sum.done < ranks_) return;
      phase_ = sum.failed > 0 ? CheckpointPhase::clearing : CheckpointPhase::committing;
      return;
    case CheckpointPhase::committing:
      if (sum.done < 1) return;
      committed_ = sum.failed == 0;
      phase_ = committed_ ? CheckpointPhase::idle : CheckpointPhase::clearing;
      return;
    case CheckpointPhase::clearing:
      if (sum.done >= 1) phase_ = CheckpointPhase::idle;
      return;
  }
}

}  // namespace espalier::torchrt
