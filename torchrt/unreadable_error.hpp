// The error of a file that is there and that the system cannot read now.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// Says nothing about the file's content, which may be good: a file system or a limit failed, perhaps for a moment.
class UnreadableError : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::torchrt
