// A rank in a step of its own, below the orted of another job: an extension's GPUs on a node of the anchor.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// Runs the srun `arguments` on a tether (tether.hpp) and returns its exit code. One that is not 0 is told to the
// launcher, which never hears of a rank that Slurm did not start. Throws Error.
int rank_step(const std::vector<std::string>& arguments);

}  // namespace espalier::launcher
