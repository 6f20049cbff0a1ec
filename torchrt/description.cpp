#include "torchrt/description.hpp"

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/reported_shape.hpp"

namespace espalier::torchrt {

namespace {

// A folder that cannot be read is reported when training starts.
bool has_checkpoint(const Config& config) {
  if (!config.checkpoint.resume || config.checkpoint.directory.empty()) return false;
  try {
    return !checkpoint_steps(config.checkpoint.directory).empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

wire::Description description(const Config& config) {
  return {reported_shape(config), config.training.steps, config.handoff.method, true,
          config.parallel.limits, has_checkpoint(config)};
}

}  // namespace espalier::torchrt
