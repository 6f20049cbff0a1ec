// Between mpirun or orted and a rank: the launcher hears of one that ends before it has said hello.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// Runs the program `arguments` on a tether (tether_rank.hpp) and ends as it does. What is not exit code 0 is told to
// the launcher. Throws Error.
int rank(const std::vector<std::string>& arguments);

// The same for a rank in a step of its own, below the orted of another job: an extension's GPUs on a node of the
// anchor. `arguments` is the srun, on a tether for such (tether.hpp). Returns its exit code.
int rank_step(const std::vector<std::string>& arguments);

}  // namespace espalier::launcher
