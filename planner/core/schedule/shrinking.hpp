// The decision by which a job gives extensions back. Internal to the scheduler.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/schedule/player.hpp"

namespace espalier {

// Many remainders are weighed for each one that is used, so local search is left out here. The
// plans are then a little slower than possible, which favours keeping scale-outs.
inline constexpr SearchEffort kStackEffort{1, 0, 0};

// For one decision. The arguments must outlive this object.
class Shrinking {
 public:
  Shrinking(const SchedulerOptions& options, const PlanningInput& input, const Site& site)
      : options_(options), input_(input), site_(site) {}

  // Gives back `leaving` (sorted), and extensions that the smaller plan does not use. nullopt: no
  // valid plan.
  std::optional<Decision> shrink(Player& one, std::vector<JobId> leaving) const;
  // Gives back the newest extensions of the job's `stack`, one after the other, as long as each alone brings less than
  // `limit` (Suika §3.2.3). nullopt: there are none.
  std::optional<Decision> reclaim(Player& one, const std::vector<StackTop>& stack, double limit) const;

 private:
  const SearchEffort& shrink_effort() const;
  // What the job's benefits count with at the speed that it has without the extensions.
  double discount_without(const Player& one, const StackTop& top) const;
  void leave_what_brings_nothing(Player& one, WorkingPlan& below, std::vector<JobId>& leaving) const;

  const SchedulerOptions& options_;
  const PlanningInput& input_;
  const Site& site_;
};

// Adds the extensions of which `plan` uses no GPU to `leaving`, and sorts it.
void add_unused(const ElasticJob& job, const Plan& plan, std::vector<JobId>& leaving);

// GPUs of the job's extensions that are in `extensions` (sorted).
int gpus_in(const ElasticJob& job, const std::vector<JobId>& extensions);

}  // namespace espalier
