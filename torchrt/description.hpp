// What the program tells a launcher about its training.
#pragma once

#include "planner/wire/messages.hpp"
#include "torchrt/config.hpp"

namespace espalier::torchrt {

// What `--describe` prints, and what a worker's hello repeats. Needs no device and no MPI.
wire::Description description(const Config& config);

}  // namespace espalier::torchrt
