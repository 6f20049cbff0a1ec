// How a growth is recorded: what was weighed, why the others lost, what is asked of Slurm.
#pragma once

#include <string>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/decision.hpp"
#include "planner/core/schedule/virtual_job.hpp"

namespace espalier {

// The candidates of one round of `job`, the chosen prefix without a reason to have lost. `seconds_per_ms`: from model
// to measured time. At most 32: the chosen one and those with the highest benefits.
std::vector<Candidate> candidates_of(const VirtualJob& job, std::size_t chosen, double threshold, double discount,
                                     double least_gain, double seconds_per_ms);

// The extension for `gpus` GPUs of a node: CPUs and memory in proportion, never all of the node's rest.
ExtensionRequest request_for(const Supply& supply, int gpus);

std::string seconds_text(double seconds);  // "0.1234 s"

}  // namespace espalier
