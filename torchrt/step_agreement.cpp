#include "torchrt/step_agreement.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/agreed_error.hpp"
#include "torchrt/learning_rate.hpp"

namespace espalier::torchrt {

namespace {

// Places in the numbers, after the norms.
enum Slot : std::size_t {
  loss,
  ahead_loss,
  stop,
  kept,
  written,
  write_failed,
  save,
  checked_step,
  out_of_range,
  slots
};

}  // namespace

StepAgreement::StepAgreement(const Engine& engine) : engine_(engine) {
  std::size_t next = 0;
  for (int unit = 0; unit < engine_.layout.units; ++unit) {
    norm_slots_.push_back(next);
    next += static_cast<std::size_t>(engine_.layout.stage_of_unit(unit).tp);
  }
  norm_slots_.push_back(next);
}

// One sum of numbers over all ranks. One rank fills each norm's place, so the sum's order changes
// no bit. (Relaxed ZeRO-1: each replica adds its share.) With bitwise accuracy losses are whole
// numbers.
void StepAgreement::exchange(std::int64_t step, const std::vector<Compute::NormOf>& counted,
                             const VoteQuestion& question) {
  step_ = step;
  Compute& compute = engine_.compute;
  const RankLayout& self = engine_.layout.ranks[static_cast<std::size_t>(engine_.world.rank())];
  const std::size_t norms = norm_slots_.back();
  std::vector<double> all(norms + slots, 0.0);
  const std::vector<double> squares = compute.squared_norms(counted);
  for (std::size_t i = 0; i < counted.size(); ++i)
    all[norm_slots_[static_cast<std::size_t>(counted[i].unit)] + static_cast<std::size_t>(self.tp_rank)] = squares[i];
  const bool bad_norm = !std::all_of(all.begin(), all.end(), [](double norm) { return std::isfinite(norm); });
  const Vote vote = question();
  all[norms + loss] = compute.loss_sum();
  all[norms + ahead_loss] = compute.ahead_loss_sum();
  all[norms + stop] = vote.stop ? 1 : 0;
  all[norms + kept] = vote.kept ? 1 : 0;
  all[norms + written] = vote.checkpoint.done;
  all[norms + write_failed] = vote.checkpoint.failed;
  all[norms + save] = vote.checkpoint.asked;
  all[norms + checked_step] = static_cast<double>(step_);
  bad_loss_ = !std::isfinite(all[norms + loss] + all[norms + ahead_loss]);
  bad_gradient_ = bad_norm || compute.out_of_range();
  all[norms + out_of_range] = bad_loss_ || bad_gradient_ ? 1 : 0;
  engine_.world.sum(all);
  ESPALIER_INVARIANT(all[norms + checked_step] == static_cast<double>(step_) * engine_.world.size());
  sums_ = std::move(all);
}

StepOutcome StepAgreement::outcome() const {
  const std::size_t norms = norm_slots_.back();
  if (sums_[norms + out_of_range] > 0) complain();
  double squared = 0;
  for (std::size_t i = 0; i < norms; ++i) squared += sums_[i];
  const TrainingConfig& training = engine_.config.training;
  const ModelConfig& model = engine_.config.model;
  const double tokens = Compute::kLossUnit * training.global_batch * model.sequence;
  StepOutcome outcome;
  outcome.gradient_norm = std::sqrt(squared);
  outcome.loss = sums_[norms + loss] / tokens;
  outcome.ahead_loss = sums_[norms + ahead_loss] / (tokens * std::max(1, model.mtp_layers));
  outcome.switch_agreed = sums_[norms + stop] > 0;
  outcome.kept = sums_[norms + kept] == engine_.world.size();
  outcome.checkpoint = {sums_[norms + written], sums_[norms + write_failed], sums_[norms + save]};
  outcome.learning_rate = learning_rate(training, step_);
  return outcome;
}

// All ranks come here together and find the lowest rank with a bad loss. Only if all losses are
// good, they find the lowest rank with a bad gradient: bad gradients may merely follow from a bad
// loss.
void StepAgreement::complain() const {
  const int size = engine_.world.size();
  const int first = engine_.world.minimum(bad_loss_       ? engine_.world.rank()
                                          : bad_gradient_ ? size + engine_.world.rank()
                                                          : INT_MAX);
  const std::string where = "training: step " + std::to_string(step_) + ", rank " + std::to_string(first % size);
  if (first < size) throw AgreedError(where + ": the loss is not a finite number; lower training.learning_rate");
  if (engine_.config.training.accuracy == Accuracy::bitwise)
    throw AgreedError(
        where +
        ": a gradient is not a number or too large to be summed bit by bit; lower training.learning_rate or "
        "set training.accuracy = \"relaxed\"");
  throw AgreedError(where + ": a gradient is not a finite number; lower training.learning_rate");
}

}  // namespace espalier::torchrt
