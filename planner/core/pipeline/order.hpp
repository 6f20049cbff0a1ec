// The form in which the search changes schedules. Pure.
//
// Micro-batches are alike. So a schedule loses nothing when each chunk takes them in the same order in every pass: the
// k-th F, the k-th I or B, and the k-th W that is not part of a B belong together. An order then names kinds and chunks
// only, and every order in which F, I and W keep their counts (F >= I >= W) is a schedule, unless it deadlocks.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/core/pipeline/schedule.hpp"
#include "planner/core/pipeline/search.hpp"

namespace espalier::pipeline {

struct Step {
  Compute kind = Compute::forward;
  std::int16_t chunk = 0;  // below kMaxScheduleChunks
  bool operator==(const Step&) const = default;
};

using RankOrder = std::vector<Step>;
using Order = std::vector<RankOrder>;  // by rank

Order order_of(const Schedule& schedule);
Schedule schedule_of(const Order& order, const SearchProblem& problem);

// Most memory that the activations of a rank's order need. It follows from the order alone, not from times.
double peak_of(const RankOrder& order, const Costs& costs);
bool fits(const Order& order, const SearchProblem& problem);
// `used` is within `limit`, with room for rounding.
inline bool within(double used, double limit) { return used <= limit * (1 + 1e-9) + 1e-12; }

}  // namespace espalier::pipeline
