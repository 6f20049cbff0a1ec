// The coefficients of a running job, from its profiles. They are used once they are stable. Pure.
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

  // Adds a profile of `generation`, measured on `site`. A profile seen before is no news. An
  // unusable profile sets trouble(). Coefficients belong to GPU types, so the book starts again
  // when the hardware changes.
  News add(const Site& site, const Profile& profile, int generation);

  // The means of the newest stable window. Nothing before the first stable window, and nothing on
  // other hardware.
  std::optional<JobCoefficients> coefficients(const Site& site) const;
  // For records: the same, but before the first stable window the coefficients of the latest
  // profile.
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
