// Slurm or MUNGE did not answer, and may do so later. Another Error of Slurm's says what asking again does not change.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::launcher {

class Unanswered : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::launcher
