// Derives a job's activation sizes from measured memory peaks (Suika App. A.3 inverted; A.4.2, step
// 8).
#pragma once

#include <string>
#include <vector>

#include "planner/core/model/memory.hpp"

namespace espalier {

// The measured peak of one GPU and the GPU's load, as for peak_memory().
struct ObservedPeak {
  double bytes = 0;
  int layers = 0, share = 0, tp = 1, dp = 1;
  StagePosition at;
};

// Sets activ_p_bytes, activ_np_bytes and memory_assumed of `job`. Its other sizes must be known.
// Peaks at two TP degrees give both activation sizes. Otherwise k_activ-np = `nonpartitioned` *
// k_activ is assumed. Returns false and sets nothing when `peaks` is empty. Adds a sentence to
// `remarks` for each fall-back.
bool infer_activations(JobCoefficients& job, const std::vector<ObservedPeak>& peaks, double nonpartitioned,
                       std::vector<std::string>& remarks);

}  // namespace espalier
