// The device or the system has not enough free memory at the moment.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

class MemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::torchrt
