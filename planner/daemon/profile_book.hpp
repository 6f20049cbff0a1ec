// What a running job's profiles say of it: its coefficients, once they have come to rest. Pure.
#pragma once

#include <optional>
#include <string>

#include "planner/core/model/coefficient_window.hpp"
#include "planner/core/model/profile.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

class ProfileBook {
 public:
  enum class News { none, taken, ready, unusable };  // ready: the coefficients have just become stable

  // A profile of `generation`, measured on `site`. One that was seen before is no news; one that cannot be used leaves
  // trouble(). On other hardware than before everything starts afresh: coefficients are by GPU type.
  News add(const Site& site, const Profile& profile, int generation);

  // The means of the newest stable window. Nothing before the first one, and nothing on other hardware.
  std::optional<JobCoefficients> coefficients(const Site& site) const;
  // For records: the same, or before the first stable window what the latest profile says.
  std::optional<JobCoefficients> latest(const Site& site) const;
  bool settled() const { return ready_; }
  const std::string& trouble() const { return trouble_; }

 private:
  std::optional<Hardware> hardware_;
  CoefficientWindow window_;
  int generation_ = -1;
  std::int64_t step_ = -1;
  bool ready_ = false;
  std::string trouble_;
};

}  // namespace espalier
