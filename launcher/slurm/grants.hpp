// The planner's grants: each lets one extension into the elastic partition (planner/wire/grant.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/core/decision.hpp"

namespace espalier::launcher {

class Grants {
 public:
  // Grants for these requests, by index. Earlier ones are dropped.
  void admit(const std::vector<ExtensionRequest>& requests, const std::vector<std::string>& grants);
  // One for the request, which is used up. Empty: there is none, and the site needs none or will refuse the extension.
  std::string take(const ExtensionRequest& request);

 private:
  std::vector<std::pair<ExtensionRequest, std::string>> unused_;
};

}  // namespace espalier::launcher
