// Points in time on the device's own time line: CPU clocks in espalier-train, CUDA events in espalier-train-cuda.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// One thread; throws Error.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // Forgets all marks.
  virtual void clear() = 0;
  // When everything that was started so far is done; does not wait for it. The number of the mark.
  virtual std::size_t mark() = 0;
  // Of every mark, in microseconds of the host's steady clock. Waits for the device.
  virtual std::vector<double> microseconds() = 0;
};

// Of the flavour, on that device.
std::unique_ptr<Timeline> make_timeline(const Device& device);
// The host's clock: what is done when a call returns is timed by it.
std::unique_ptr<Timeline> make_host_timeline();

}  // namespace espalier::torchrt
