// Where the chunks of a plan lie whose schedule is left to the planner ("auto"). Lists will be searched for it once it
// runs (model/searched_lists.hpp), and they keep its chunks where they are. So the placements are compared by what the
// search reaches with each, in the memory that there is. Pure and deterministic.
#pragma once

#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Of a reason.
inline constexpr const char* kPlacedBySearch = "its chunks lie where lists that are searched once it runs reach most";

// The fastest known schedule of one placement that fits into memory, on layers that are balanced for it. ms of a step.
struct PlacementReach {
  Plan plan;
  double named_ms = 0;     // with the known schedule, which runs until lists are found
  double searched_ms = 0;  // with the lists
  // With the lists where they save so much that a launcher takes them (launcher/job/list_search.hpp), else with the
  // known schedule.
  double reached_ms() const;
};

// A step of more operations is not searched: its lists take long.
inline constexpr int kMostSearchedOperations = 6'000;

// Of the plan's own placement, as it is, and then of all others that problem.forms have. `sketch` is the plan's. Empty:
// the plan has one stage, too many operations, or does not fit by estimate.
std::vector<PlacementReach> placement_reaches(const Plan& plan, const PlanSketch& sketch, const Problem& problem);
// Of the plan as it is, whether it fits or not. Plans of one stage or too many operations have no searched lists.
PlacementReach reach_of(Plan plan, const Hardware& hardware, const Topology& topology, const JobCoefficients& job);

// The plan, or one on the same GPUs and micro-batches with another placement: where lists reach a step that is 2%
// shorter, and the known schedule takes at most 2% longer than the plan's own. For jobs that leave the schedule to the
// planner; others, and a plan that its user gave, stay. Takes some 0.2 s of a core at most.
Plan with_searched_placement(Plan plan, const PlanSketch& sketch, const Problem& problem, const ElasticJob& job);
// The same of a job's first plan.
Plan with_searched_placement(Plan plan, const ElasticJob& job, const Site& site, const JobCoefficients& coefficients);

}  // namespace espalier
