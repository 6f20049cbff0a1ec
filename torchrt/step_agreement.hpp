// What all ranks tell each other at the end of a step, before any state changes: norms, losses and votes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "torchrt/checkpoint/agreement.hpp"
#include "torchrt/engine.hpp"

namespace espalier::torchrt {

// One rank's message to all others at the end of a step.
struct Vote {
  bool stop = false;  // this rank was asked to stop after this step
  bool kept = true;   // the state that a recovery needs from this rank will outlive it
  CheckpointVote checkpoint;
};

using VoteQuestion = std::function<Vote()>;

struct StepOutcome {
  double loss = 0;             // mean over all tokens of the step
  double ahead_loss = 0;       // mean of the MTP modules' losses; 0: there is none
  double gradient_norm = 0;    // of the whole model, before clipping
  double learning_rate = 0;    // that the update used
  bool switch_agreed = false;  // some rank voted to stop; all ranks see the same answer
  bool kept = false;           // all ranks voted `kept`
  CheckpointVote checkpoint;   // the sum of all ranks' votes
};

// For one thread. Collective: every rank of the world agrees on the same steps.
class StepAgreement {
 public:
  // `engine` must outlive it.
  explicit StepAgreement(const Engine& engine);
  // Tells this rank's numbers of `step`, which counts from 1, and hears the sums. `counted`: the units whose norms this
  // rank tells. `question` is asked once, when the norms are there. Collective.
  void exchange(std::int64_t step, const std::vector<Compute::NormOf>& counted, const VoteQuestion& question);
  // What the sums of exchange() say. Throws AgreedError when a loss or a gradient is not a finite number. The error
  // names step and rank. Collective.
  StepOutcome outcome() const;

 private:
  [[noreturn]] void complain() const;

  const Engine& engine_;
  std::vector<std::size_t> norm_slots_;  // by unit: its first place in the numbers
  std::int64_t step_ = 0;
  std::vector<double> sums_;
  bool bad_loss_ = false, bad_gradient_ = false;  // on this rank
};

}  // namespace espalier::torchrt
