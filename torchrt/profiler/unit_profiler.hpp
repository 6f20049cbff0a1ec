// Measures one unit of a stage on this device, without the stage's peers.
#pragma once

#include "planner/core/model/stage_profile.hpp"
#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// Which shard of a unit, and on what.
struct UnitShare {
  UnitKind kind = UnitKind::block;
  int tp = 1;
  int samples = 1;   // of each micro-batch
  int replicas = 1;  // ZeRO-1 divides the optimizer's state among them
};

// Micro-batches. Each goes forward, backward and through the optimizer.
struct UnitRounds {
  int warmup = 2, timed = 8;
  double most_seconds = 120;  // then no round begins any more, but the first timed one
};

struct MeasuredUnit {
  UnitProfile profile;  // all but `count`
  int timed = 0;        // rounds that were timed
  double seconds = 0;   // of all rounds
  // Bytes that the device's tensors take while no micro-batch is under way: what units of a rank share.
  double shared_bytes = 0;
};

// Takes the memory of one unit, and gives it back. The tokens, activations and gradients that it reads are random. Call
// prepare_torch() before. Throws Error.
MeasuredUnit measure_unit(const Config& config, Device& device, const UnitShare& share, const UnitRounds& rounds);

}  // namespace espalier::torchrt
