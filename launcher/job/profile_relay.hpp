// Profiles on their way from the workers to the planner: checked, the newest kept, told no oftener than statuses are.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class ProfileRelay {
 public:
  // What `rank` of the committed generation sent, a wire::Profiled. Why it is refused, empty when it was taken, and
  // empty too when it is refused for the same reason as the one before: a worker must not fill the log.
  std::string take(const wire::Frame& frame, int rank, const Plan& plan, const ModelShape& shape);

  // The newest profile, also when the planner was told before: it may be another planner.
  const std::optional<Profile>& newest() const { return newest_; }
  // The newest profile if it was not yet taken here.
  std::optional<Profile> untold();

  // Another generation is the job now: what is known is of a plan that no longer runs.
  void forget();

 private:
  std::optional<Profile> newest_;
  bool told_ = false;
  std::string refused_;
};

}  // namespace espalier::launcher
