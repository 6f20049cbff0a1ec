// When a job would end that has not started yet, for its deadline= (Arena §5.6: jobs that cannot meet their deadlines
// are dropped). Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

struct DeadlineForecast {
  double own_end = 0;   // on its own GPUs, seconds since the epoch
  double best_end = 0;  // on the fastest plan that was found on up to its maximum, had it those GPUs from the start on
  int own_gpus = 0, best_gpus = 0;
  // The coefficients were measured on a job like it. False: they are of the GPUs' data sheets.
  bool measured = false;
  // No plan on any of the cluster's GPUs ends before this (model/least_time.hpp), with what is assumed at the fastest
  // end of its range (model/assumed_range.hpp). Only a deadline before it is surely missed: the search for best_end is
  // a short one. 0: not told, by a planner of another version.
  double least_end = 0;
  bool operator==(const DeadlineForecast&) const = default;
};

// `job`: with its model, its own GPUs in `anchor`, and `plan`, whose step takes `step_seconds`. GPUs beyond its own are
// the cluster's nearest ones, whoever uses them now, but on nodes of `closed` (sorted), where it gets none. A held job
// gets none anywhere. For least_end neither counts, and `most_ever` is the most GPUs that it can have when today's
// limits are gone; 0: its maximum. `start_seconds`: from `now` to the first step. nullopt: its number of steps is not
// known.
std::optional<DeadlineForecast> deadline_forecast(const ElasticJob& job, const Site& site,
                                                  const JobCoefficients& coefficients, bool measured, double now,
                                                  double start_seconds, std::span<const std::string> closed = {},
                                                  int most_ever = 0);

// "20 min to its deadline: 30 min on its 2 GPUs, 12 min on 8, by what a job like it measured"
std::string describe(const DeadlineForecast& forecast, double deadline, double now);

}  // namespace espalier
