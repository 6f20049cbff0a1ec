// Another plan on the GPUs that a job has, where the job leaves its schedule to the planner ("auto"): other degrees,
// another schedule, or chunks that lie otherwise. Plans are compared by what lists reach that are searched once they
// run (searched_placement.hpp), because the job will run such lists. Internal to the scheduler.
//
//   for (Decision& d : replacing.find({options, input, payoff}, players)) ...   // one object, kept between decisions
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/core/schedule/payoff.hpp"
#include "planner/core/schedule/searched_placement.hpp"

namespace espalier {

// Whether this part decides for the job. A plan that its user gave stays as other parts leave it.
bool replaces(const ElasticJob& job);

// To search a better placement for a job takes some 0.1 s of a core, so a decision does it for at most two jobs: first
// for jobs that were never searched, then for those whose last search is longest ago. A job is searched when its plan
// is new and at the first change of its coefficients. After that it is searched at changes that are at least 1 minute,
// then 2, 4 and so on up to 60 minutes apart. A placement that a job left is not taken again on the same GPUs.
class Replacing {
 public:
  static constexpr std::size_t kMostLooks = 2;

  // What one decision is about. The arguments must outlive the call.
  struct Moment {
    const SchedulerOptions& options;
    const PlanningInput& input;
    const Payoff& payoff;
  };

  // Decisions of kind migrate without new GPUs, of those of `players` whose coefficients are measured and whose plan
  // was not chosen by trials (PlanningInput::tuned). Held jobs must not be among them.
  std::vector<Decision> find(const Moment& moment, const std::vector<Player*>& players);

 private:
  // The best plan that a look has found.
  struct Found {
    PlacementReach present, next;
    bool by_search = false;  // its placement is not that of the fastest known schedule
    // Whether its gain depends on what is only assumed, and then what both reach with the worst of that.
    bool doubted = false;
    double worst_present_ms = 0, worst_next_ms = 0;
  };
  // Where chunks lie.
  struct Placement {
    int stages = 1, chunks = 1;  // chunks of each stage
    bool v_shaped = false;
    bool operator==(const Placement&) const = default;
  };
  static Placement placement_of(const Plan& plan);
  struct Known {
    Plan plan;
    JobCoefficients coefficients;
    std::optional<Found> found;
    double looked = 0, rest = 0;
    bool again = false;           // a change was proposed, and the job has not made it
    std::vector<Placement> left;  // on these GPUs
  };
  bool is_due(const Player& one, const PlanningInput& input) const;
  void look(Player& one, const PlanningInput& input);
  static std::optional<Found> best_of(Player& one, const std::vector<Placement>& left);
  std::optional<Decision> decision(const Player& one, const Found& found, const Moment& moment) const;

  std::map<JobId, Known> known_;
};

}  // namespace espalier
