#include "planner/daemon/live_job.hpp"

#include <algorithm>

namespace espalier {

void clock_set_back(LiveJob& live, double before, double now) {
  const auto not_later = [&](double& at) { at = std::min(at, now); };
  for (double* const at : {&live.saved, &live.scaled_at}) not_later(*at);
  if (live.last_change) not_later(*live.last_change);
  for (auto* const times : {&live.moves, &live.tried_at})
    for (double& at : *times) not_later(at);
  if (live.open) {
    not_later(live.open->decision.time);
    for (auto& [name, at] : live.open->moments) not_later(at);
  }
  const auto sooner = [&](double& until) { until = std::max(0.0, until - (before - now)); };
  for (double* const until : {&live.not_before, &live.grow_not_before, &live.smaller_not_before,
                              &live.no_smaller_before, &live.move_not_before})
    sooner(*until);
  for (auto& [node, until] : live.avoided) sooner(until);
}

}  // namespace espalier
