// One layer alone on this device, before training: how its computation depends on the TP degree and on the samples of a
// micro-batch. And the embedding and the head alone: what the ends of a pipeline take beside its layers. The planner
// cannot know these from a plan that runs (planner/core/model/layer_times.hpp).
#pragma once

#include <optional>
#include <vector>

#include "planner/core/model/profile.hpp"
#include "torchrt/config.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

struct LayerLook {
  int tp = 1;                // the plan's degree, which is measured first
  int samples = 1;           // of the plan's micro-batch, on this rank
  std::vector<int> degrees;  // that the job may be given, too
  double most_seconds = 4;   // then no further degree is begun
};

struct MeasuredAlone {
  std::vector<LayerTime> layers;
  std::optional<EdgeTimes> edges;  // with the plan's degree and samples
};

// Takes the memory of one unit, and gives it back. Left out are degrees and numbers of samples that cannot be
// measured, e.g. for lack of memory, and times that are not steady enough to tell anything, e.g. on a CPU that other
// ranks share. Call prepare_torch() before. Throws DeviceError when the device is broken.
MeasuredAlone measure_alone(const Config& config, Device& device, const LayerLook& look);

// The TP degrees that the planner may choose for a job of `config`, whose plan has `tp`.
std::vector<int> degrees_to_measure(const Config& config, const ParallelLimits& asked, int tp);

}  // namespace espalier::torchrt
