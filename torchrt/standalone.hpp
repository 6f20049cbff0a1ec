// Training without a launcher: one world from the first step to the last.
#pragma once

#include <string>

#include "torchrt/config.hpp"

namespace espalier::torchrt {

class World;

struct StandaloneOptions {
  std::string plan;       // path; empty: a uniform pipeline over the world
  bool checksum = false;  // print the weights' checksum after the last step
};

// Collective. Reports a failure once and returns the process's exit code. A rank that fails alone
// during training ends the whole world.
int train_standalone(const Config& config, const StandaloneOptions& options, World& world);

// The plan of a standalone run on `ranks` ranks. Throws Error.
Plan standalone_plan(const Config& config, const std::string& plan_path, int ranks);

}  // namespace espalier::torchrt
