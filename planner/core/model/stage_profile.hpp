// What one stage of a plan costs, measured on one device without the stage's peers (Arena §3.3). Units of one kind are
// identical: one of each kind is measured. Plain data.
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/profile.hpp"

namespace espalier {

enum class UnitKind { embedding, block, head };
inline constexpr UnitKind kUnitKinds[] = {UnitKind::embedding, UnitKind::block, UnitKind::head};
std::string to_string(UnitKind kind);

// All-reduces of the tensor-parallel ranks in one pass over one micro-batch. They were not run, only counted.
struct AbsentSums {
  int count = 0;
  double bytes = 0;  // of all of them together
  bool operator==(const AbsentSums&) const = default;
};

// One unit on one device: the shard of one TP rank, on the samples of one micro-batch. Times are medians in ms, without
// communication. Bytes are on this device.
struct UnitProfile {
  UnitKind kind = UnitKind::block;
  int count = 0;  // units of this kind on the stage
  double forward = 0;
  double backward = 0;         // gradient of the unit's input; with recomputation the second forward pass, too
  double weight_gradient = 0;  // gradients of the parameters
  double optimizer = 0;        // one step
  double spread = 0;           // of the unit's work, as a share of it (step_statistics.hpp)
  AbsentSums forward_sums, backward_sums;
  double weight_bytes = 0;       // parameters
  double state_bytes = 0;        // parameters and optimizer state (with ZeRO-1: this replica's part)
  double gradient_bytes = 0;     // that replicas sum
  double accumulator_bytes = 0;  // that the gradient takes in memory
  double held_bytes = 0;         // activations kept from forward to backward
  double pending_bytes = 0;      // what the weights' gradients need, kept from backward to their computation
  double working_bytes = 0;      // the most that any of its operations takes in addition
  bool operator==(const UnitProfile&) const = default;
};

struct StageProfile {
  Plan plan;  // with its schedule's name
  int stage = 0, replica = 0;
  ModelShape shape;
  bool recompute = false, zero1 = false;
  std::vector<UnitProfile> units;  // of the stage, in the order of the model
  // Activations that come from the chunk before, and go to the chunk behind, for one micro-batch of this replica. 0:
  // the model begins, or ends, here.
  double input_bytes = 0, output_bytes = 0;
  double boundary_bytes = 0;              // activations at any boundary, per sample
  double tied_bytes = 0;                  // of the table's gradient that the first and the last stage exchange; 0: none
  double static_bytes = 0;                // states and gradients
  double peak_bytes = 0;                  // static_bytes and the most activations that the plan's schedule holds here
  int warmup = 0, steps = 0;              // micro-batches of each unit before, and in, the medians
  double device_seconds = 0;              // that both took, of all units
  std::vector<std::string> not_measured;  // for people
  bool operator==(const StageProfile& other) const = default;

  const UnitProfile* unit(UnitKind kind) const;  // null: the stage has none
};

// As a running job would report these stages: for calibrate(). All profiles must be of one plan; one per stage and
// replica at most. Throws Error where they are not.
Profile profile_of(const std::vector<StageProfile>& stages);

// Throws Error, as profile_of() does.
void must_agree(const std::vector<StageProfile>& stages);

}  // namespace espalier
