// One rank's part of a checkpoint, copied at a step's boundary so that training can go on.
#pragma once

#include <cstdlib>
#include <memory>
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

// A run of elements of one tensor's state. `values` holds elements.count floats.
struct SnapshotSlice {
  std::string tensor;  // Hugging Face's name
  StateKind kind = StateKind::parameter;
  std::vector<std::int64_t> global_shape;
  std::vector<Range> rows;
  Range columns, elements;
  const float* values = nullptr;
};

// Whole pages: two parts on one could not both be pinned.
struct SnapshotPart {
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float[], Free> values;
  std::size_t count = 0;
  bool used = false;  // by an earlier checkpoint
  // While the device copies to it by itself (Device::pin()). Destroyed before `values`.
  std::shared_ptr<void> pinned;
};

// Movable. It owns the memory into which its slices point.
struct Snapshot {
  std::vector<SnapshotPart> memory;
  std::vector<SnapshotSlice> slices;
};

// Copies this rank's part of its units. Every replica writes an equal part. TP rank 0 writes the
// tensors that are the same on all TP ranks. The first unit writes the tied table. All ranks'
// snapshots together hold every element once. `snapshot` may be an earlier one: its memory is
// reused, because touching new pages would hold up training. Throws std::bad_alloc where there is no memory.
void take_snapshot(const std::vector<UnitState>& units, const RankLayout& layout, Device& device, Snapshot& snapshot);

}  // namespace espalier::torchrt
