// Passes profiles from the workers to the planner. Checks them, keeps the newest, and tells each profile once, with a
// status. Pure.
#pragma once

#include <optional>
#include <string>

#include "planner/core/link_look.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class ProfileRelay {
 public:
  // Takes a wire::Profiled that `rank` of the committed generation sent. Returns why it is refused. Empty: it was
  // taken, or it is refused for the same reason as the one before, since a worker must not fill the log.
  std::string take(const wire::Frame& frame, int rank, const Plan& plan, const ModelShape& shape);

  // The newest profile, also if the planner was told: after a reconnect the planner may be another one.
  const std::optional<Profile>& newest() const { return newest_; }
  // The newest profile; nullopt if untold() has returned it before.
  std::optional<Profile> untold();
  // What the generation had seen of its links when it sent the newest profile.
  const LinkLook& links() const { return links_; }

  // Called when another generation becomes the job's: the profiles are of a plan that no longer runs.
  void forget();

 private:
  std::optional<Profile> newest_;
  LinkLook links_;
  bool told_ = false;
  std::string refused_;
};

}  // namespace espalier::launcher
