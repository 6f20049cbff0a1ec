// One espalierd per state directory.
#pragma once

#include <string>

#include "planner/wire/descriptor.hpp"

namespace espalier {

// Held until the process ends, however it ends. Throws Error when another one holds it.
class InstanceLock {
 public:
  explicit InstanceLock(const std::string& path);

 private:
  wire::Descriptor file_;
};

}  // namespace espalier
