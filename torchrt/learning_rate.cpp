#include "torchrt/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "torchrt/checksum.hpp"

namespace espalier::torchrt {

double learning_rate(const TrainingConfig& training, std::int64_t step) {
  if (step <= training.warmup_steps)
    return training.learning_rate * static_cast<double>(step) / static_cast<double>(training.warmup_steps);
  const std::int64_t span = std::max<std::int64_t>(1, training.steps - training.warmup_steps);
  const double progress = std::min(1.0, static_cast<double>(step - training.warmup_steps) / static_cast<double>(span));
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return training.minimum_learning_rate + (training.learning_rate - training.minimum_learning_rate) * cosine;
}

std::int64_t update_settings(const TrainingConfig& training) {
  const double all[] = {static_cast<double>(training.steps),
                        static_cast<double>(training.warmup_steps),
                        training.learning_rate,
                        training.minimum_learning_rate,
                        training.weight_decay,
                        training.beta1,
                        training.beta2,
                        training.epsilon};
  return static_cast<std::int64_t>(checksum(all, sizeof all));
}

}  // namespace espalier::torchrt
