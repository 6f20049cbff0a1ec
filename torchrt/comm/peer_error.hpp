// What goes wrong between ranks.
#pragma once

#include "planner/core/error.hpp"

namespace espalier::torchrt {

// Another rank could not be reached: it may be gone, and this one is well.
class PeerError : public Error {
 public:
  using Error::Error;
};

}  // namespace espalier::torchrt
