#include "planner/core/pipeline/action_text.hpp"

namespace espalier::pipeline {

char letter(Compute kind) {
  switch (kind) {
    case Compute::forward:
      return 'F';
    case Compute::backward:
      return 'B';
    case Compute::backward_input:
      return 'I';
    case Compute::backward_weight:
      return 'W';
  }
  return '?';
}

std::string to_string(const Action& action) {
  return std::to_string(action.chunk) + letter(action.kind) + std::to_string(action.micro_batch);
}

}  // namespace espalier::pipeline
