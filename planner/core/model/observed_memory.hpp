// What a GPU's measured memory peak says of the activations in it (Suika App. A.3 inverted; A.4.2, step 8).
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/memory.hpp"

namespace espalier {

// One GPU's measured peak and what it carries, as for peak_memory().
struct ObservedPeak {
  double bytes = 0;
  int layers = 0, share = 0, tp = 1, dp = 1;
  StagePosition at;
};

// Sets activ_p_bytes, activ_np_bytes and memory_assumed of `job`, whose other sizes are known: from two TP degrees
// where they were seen, else with k_activ-np = `nonpartitioned` * k_activ. False: nothing was observed, nothing is set.
// `remarks` gets a sentence for each fall-back.
bool infer_activations(JobCoefficients& job, const std::vector<ObservedPeak>& peaks, double nonpartitioned,
                       std::vector<std::string>& remarks);

}  // namespace espalier
