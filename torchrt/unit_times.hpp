// How long an imitated device (pace.hpp) takes for a unit's operations: from its FLOPs per second, or from a table of
// times that nothing else in Espalier reads. A table has what a constant speed has not: small shapes that are less
// efficient, and operations that tensor parallelism does not make faster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// Seconds of one rank: a micro-batch's forward, backward (gradients of the unit's input) and weight gradient; the
// update of all the unit's parameters.
struct UnitTimes {
  double forward = 0, backward = 0, weight_gradient = 0, update = 0;
};

class DeviceTimes {
 public:
  // A JSON file: {"rows": [{"unit": "embedding"|"block"|"mtp"|"head", "tp": 1, "samples": 1, "forward_ms": 1.5,
  // "backward_ms": 1.5, "weight_gradient_ms": 1.5, "update_ms": 0.1}, ...]}. Throws Error that names the file.
  explicit DeviceTimes(const std::string& path);
  // Between two rows of different `samples` it interpolates. Throws Error where the rows do not reach that far.
  UnitTimes of(const ModelConfig& model, int unit, int tp, int samples) const;
  std::uint64_t checksum() const { return checksum_; }  // of the file

 private:
  std::string path_;
  std::uint64_t checksum_ = 0;
  std::map<std::tuple<UnitPart, int>, std::map<int, UnitTimes>> rows_;  // by kind and TP degree; then by samples
};

// On a device of constant speed.
UnitTimes unit_times(const ModelConfig& model, int unit, int tp, int samples, double flops_per_second);

}  // namespace espalier::torchrt
