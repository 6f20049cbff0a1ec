#include "torchrt/description.hpp"

#include "torchrt/reported_shape.hpp"

namespace espalier::torchrt {

wire::Description description(const Config& config) {
  return {reported_shape(config), config.training.steps, config.handoff.method, true, config.parallel.limits};
}

}  // namespace espalier::torchrt
