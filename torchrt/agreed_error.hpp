// An error on which all ranks have agreed.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// All ranks throw it together, with the same message. So no rank waits for another, and one rank's
// report is enough.
class AgreedError : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::torchrt
