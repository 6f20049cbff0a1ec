// One rank's part of a checkpoint, copied out of the training's way at a step's boundary.
#pragma once

#include <string>
#include <vector>

#include "torchrt/checkpoint/manifest.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/layout.hpp"
#include "torchrt/model/state_layout.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// One unit's state in device memory.
struct UnitState {
  const UnitSpec* spec = nullptr;
  StateLayout state;
  const void* memory = nullptr;
};

// A run of elements of one tensor's state; `values` has elements.count floats.
struct SnapshotSlice {
  std::string tensor;  // Hugging Face's name
  StateKind kind = StateKind::parameter;
  std::vector<std::int64_t> global_shape;
  std::vector<Range> rows;
  Range columns, elements;
  const float* values = nullptr;
};

// Movable; owns the memory that its slices point into.
struct Snapshot {
  std::vector<std::vector<float>> memory;
  std::vector<SnapshotSlice> slices;
};

// What this rank of the layout writes of its units: every replica an equal part, what is the same on all TP ranks by TP
// rank 0, the tied table by the first unit. All ranks' snapshots together hold every element once. `snapshot` may be an
// earlier one: its memory is used again, so that no page is touched for the first time while training stands.
void take_snapshot(const std::vector<UnitState>& units, const RankLayout& layout, Device& device, Snapshot& snapshot);

}  // namespace espalier::torchrt
