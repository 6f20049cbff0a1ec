// The coefficients of a running job, from its profiles. They are used once they are stable. Until
// then those of an earlier job like it count, where they are known. Pure.
#pragma once

#include <memory>
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
  // unusable profile sets trouble(). `own_lists`: the job's, as for calibrate(). Coefficients belong to GPU types, so
  // the book starts again when the hardware changes.
  News add(const Site& site, const Profile& profile, int generation,
           const std::shared_ptr<const OwnLists>& own_lists = {});

  // JobCoefficients::rail_ms_per_byte until this job has measured its own (usual_rail() of knowledge.hpp). For profiles
  // that are added from now on.
  void expect_rail(double ms_per_byte) { usual_rail_ = ms_per_byte; }

  // Coefficients of earlier jobs like this one. They count until a profile of this job is calm;
  // what that one does not show, they go on to tell.
  void recall(const Site& site, JobCoefficients known);
  // This job's own, of before a restart of the planner: it had taken the profile of `step`.
  void restore(const Site& site, JobCoefficients own, int generation, std::int64_t step, double spread);
  // Starts again where nothing but recall() has told coefficients.
  void forget_recalled();

  // Those of the newest calm profile or stable window, or recalled ones. Nothing before, and nothing
  // on other hardware.
  std::optional<JobCoefficients> coefficients(const Site& site) const;
  // Those of the latest profile alone, without what was known before.
  std::optional<JobCoefficients> measured(const Site& site) const;
  // For records: the same, but before the first stable window the coefficients of the latest
  // profile.
  std::optional<JobCoefficients> latest(const Site& site) const;
  bool settled() const { return ready_; }      // by profiles of this job
  bool recalled() const { return recalled_; }  // coefficients() are an earlier job's
  int generation() const { return generation_; }
  std::int64_t step() const { return step_; }  // of the latest profile
  int steps() const { return steps_; }         // that it measured; 0: it did not tell
  // Of the profile that coefficients() come from (step_statistics.hpp); 0: it did not tell.
  double spread() const { return spread_; }
  const std::string& trouble() const { return trouble_; }

 private:
  std::optional<Hardware> hardware_;
  double usual_rail_ = 0;
  CoefficientWindow window_;
  int generation_ = -1;
  std::optional<Plan> plan_;  // of the last profile, unless that was before a restart
  std::int64_t step_ = -1;
  int steps_ = 0;
  double spread_ = 0;
  bool ready_ = false, recalled_ = false;
  std::string trouble_;
};

}  // namespace espalier
