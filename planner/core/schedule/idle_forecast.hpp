// How long GPUs that are idle now are likely to stay idle, by how often jobs were submitted and how large they were
// (FlexTrain §5.1 asks the same before it scales up). Pure.
#pragma once

#include <optional>

#include "planner/core/arrivals.hpp"

namespace espalier {

struct IdleForecastLimits {
  double window_seconds = 8 * 3600.0;   // submissions of so long count
  double least_known_seconds = 3600.0;  // nothing is forecast while submissions are known for less
  // No forecast is shorter or longer. The longest is also the one for a cluster into which nobody submits.
  double least_seconds = 60.0;
  double most_seconds = 3600.0;
  bool operator==(const IdleForecastLimits&) const = default;
};

// For one decision.
struct IdleForecast {
  int idle = 0;          // GPUs that are idle now
  double rate = 0;       // submissions a second; 0: there were none
  double mean_gpus = 1;  // of a submission
  IdleForecastLimits limits = {};

  // Seconds until somebody needs one of `gpus` idle GPUs. Jobs that arrive take the other idle GPUs first. So
  //     n = floor((idle - gpus) / mean_gpus) + 1
  // jobs must arrive, which takes n / rate seconds. The result is kept within the limits.
  double seconds(int gpus) const;
};

// Jobs without GPUs do not count. nullopt: submissions are not known, or not for long enough.
std::optional<IdleForecast> idle_forecast(int idle, const Arrivals* arrivals, double now,
                                          const IdleForecastLimits& limits);

}  // namespace espalier
