// The decisions by which a job takes GPUs, or gets a better plan on the GPUs it has. Internal to the scheduler.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/schedule/payoff.hpp"

namespace espalier {

inline constexpr SearchEffort kReplanEffort{1, 4, 0, 2'000};
// For a job that has won GPUs, on all its GPUs.
inline constexpr SearchEffort kPolishEffort{1, 6, 1000, 2'000};

// For one decision. The arguments must outlive this object.
class Growing {
 public:
  Growing(const SchedulerOptions& options, const PlanningInput& input, const Site& site, double threshold,
          const Payoff& payoff)
      : options_(options), input_(input), site_(site), threshold_(threshold), payoff_(payoff) {}

  // The decision for what the job has won in the virtual cluster. Its GPUs leave `supplies`. nullopt:
  // placed on its GPUs the plan is not worth its cost; `weighed` may get a note.
  std::optional<Decision> growth(Player& one, std::vector<Supply>& supplies, std::vector<Weighed>& weighed);

  // A better plan on the same GPUs. Only if coefficients were observed and the change is worth its
  // cost. Of a job that leaves its schedule to the planner: Replacing (replacing.hpp).
  std::optional<Decision> replan(Player& one);
  bool may_replan(const Player& one) const;

 private:
  void polish(Player& one);
  void choose_among(Decision& d, const Player& one) const;

  const SchedulerOptions& options_;
  const PlanningInput& input_;
  const Site& site_;
  const double threshold_;
  const Payoff payoff_;
};

}  // namespace espalier
