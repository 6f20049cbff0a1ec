// Lists of a pipeline schedule that are searched for a job's running plan, on what the job itself measured (FlexTrain
// §4.2-4.3). State stays where it is: only the order of each stage's work differs from the plan's own schedule. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/model/hardware.hpp"
#include "planner/core/model/profile.hpp"
#include "planner/core/pipeline/search.hpp"
#include "planner/core/topology/topology.hpp"

namespace espalier {

struct ListProblem {
  pipeline::SearchProblem search;  // times in ms, memory in bytes
  // By stage: what follows its last work, once a step; ms. Exposed sums of gradients and the optimizer.
  std::vector<double> after;
  pipeline::Schedule present;  // the lists that the plan's schedule has, each B as I and W
};

// Of the plan that `profile` is of. Each stage takes as long as its slowest replica measured, and its chunks share that
// by their layers; what the embedding and the head take of it, and the messages, are the performance model's. A GPU may
// fill with activations what the model leaves it, but never less than the present lists do. `known_rail`: as for
// calibrate(). Throws Error where the plan has one stage, chunks that lie in no known way, or so many operations that
// lists of them are too long to search and to send; and as calibrate() does.
ListProblem list_problem(const Hardware& hardware, const Topology& topology, const Profile& profile,
                         double known_rail = 0);

// Of any plan, from coefficients alone.
ListProblem list_problem(const Hardware& hardware, const Topology& topology, const JobCoefficients& job,
                         const Plan& plan);

struct SearchedLists {
  pipeline::Schedule lists;  // sound
  // Time of a step, in ms, without what no list can change: with these lists, with the plan's own, and with the
  // fastest known schedule that has these chunks and fits.
  double ms = 0, present_ms = 0, generator_ms = 0;
  std::string best_generator;  // empty: none of the known ones fits
  double gain() const { return 1 - ms / present_ms; }
};

// Takes some 0.6 s of a core at most, or about 30 ns for each of `most_work`. Never slower than the present lists,
// which are among the results even where they need more memory than there is.
SearchedLists search_lists(const ListProblem& problem, std::int64_t most_work = INT64_MAX);

}  // namespace espalier
