// One espalierd per state directory.
#pragma once

#include <string>

#include "planner/wire/descriptor.hpp"

namespace espalier {

// The lock is held until the process ends, even by a crash. Throws Error when another process holds
// it.
class InstanceLock {
 public:
  explicit InstanceLock(const std::string& path);

 private:
  wire::Descriptor file_;
};

}  // namespace espalier
