// The error of communication between ranks.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// Another rank could not be reached. That rank may be gone; this rank is well.
class PeerError : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::torchrt
