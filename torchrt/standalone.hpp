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

// Collective; returns the process's exit code after one message about whatever went wrong. A failure in the middle of
// training ends the whole world.
int train_standalone(const Config& config, const StandaloneOptions& options, World& world);

// The plan of a standalone run on `ranks` ranks. Throws Error.
Plan standalone_plan(const Config& config, const std::string& plan_path, int ranks);

}  // namespace espalier::torchrt
