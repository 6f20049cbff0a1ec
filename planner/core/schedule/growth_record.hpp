// The record of a growth: the candidates, the reasons of their rejection, and the request to Slurm.
#pragma once

#include <string>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/decision.hpp"
#include "planner/core/schedule/virtual_job.hpp"

namespace espalier {

// The candidates of one round of `job`. The chosen prefix has no reason of rejection. At most 32:
// the chosen one and the ones with the highest benefits. `seconds_per_ms` converts model time to
// measured time.
std::vector<Candidate> candidates_of(const VirtualJob& job, std::size_t chosen, double threshold, double discount,
                                     double least_gain, double seconds_per_ms);

// The extension for `gpus` GPUs of a node. It gets CPUs and memory in proportion to its GPUs, and
// leaves a remainder on the node.
ExtensionRequest request_for(const Supply& supply, int gpus);

std::string seconds_text(double seconds);  // "0.1234 s"

}  // namespace espalier
