// Memory that a device, or the system, has not got just now.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

class MemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::torchrt
