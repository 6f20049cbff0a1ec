// The profile of a program whose inside the planner does not know (data_parallel.hpp): how long its replicas compute in
// a step, how long the synchronization of gradients holds them up, and the rest. It takes the place of the times of
// passes and micro-batches that our own trainer reports.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/json.hpp"
#include "planner/core/model/profile.hpp"

namespace espalier {

struct FlatProfile {
  std::int64_t step = 0;           // the last step of the medians; identifies the profile
  int steps = 0;                   // measured steps
  std::vector<double> compute_ms;  // by replica: its forward and backward passes of a step
  // Of a step, what the backward pass did not hide: what the replica that waited least has waited. Absent: not
  // measured.
  std::optional<double> sync_ms;
  double rest_ms = 0;  // of a step: the optimizer, and all that does not depend on the number of samples
  double gradient_bytes = 0, weight_bytes = 0;
  double state_bytes = 0;  // parameters and optimizer state
  double peak_bytes = 0;   // of the fullest GPU; 0: not measured
  double spread = 0;       // step_statistics.hpp
};

void to_json(Json& json, const FlatProfile& profile);
// Throws Error that names the field.
void from_json(const Json& json, FlatProfile& profile);

// The same in the form that the planner calibrates with. Forward is a third of the computation and backward two thirds,
// as in the performance model where nothing else is known. Of a plan with one stage and one micro-batch; the caller
// checks the result with unfit(). Throws Error when the number of replicas is not the plan's.
Profile profile_of(const FlatProfile& flat, const Plan& plan, const ModelShape& shape);

}  // namespace espalier
