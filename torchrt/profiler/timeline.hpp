// Points in time on the device: the host's clock in espalier-train, CUDA events in
// espalier-train-cuda.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// For one thread. Throws Error.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // Forgets all marks.
  virtual void clear() = 0;
  // Marks the moment when all work started so far is done. Does not wait for it. Returns the mark's
  // number.
  virtual std::size_t mark() = 0;
  // The times of all marks, in microseconds of the host's steady clock. Waits for the device.
  virtual std::vector<double> microseconds() = 0;
};

// The flavour's timeline for this device.
std::unique_ptr<Timeline> make_timeline(const Device& device);
// Uses the host's clock, for work that is done when a call returns.
std::unique_ptr<Timeline> make_host_timeline();

}  // namespace espalier::torchrt
