// Options of FlexTrain's scaling controller. The defaults are the paper's (§5.1, §6.4).
#pragma once

namespace espalier {

// What may change with the number of GPUs. The TP degree never does.
// pipeline: the number of stages alone; every sum keeps its order ("PP" of the paper's figures).
// pipeline_and_data: the number of replicas too ("DP+PP").
enum class Elasticity { pipeline, pipeline_and_data };

struct FlextrainOptions {
  Elasticity elasticity = Elasticity::pipeline;
  double most_times = 4;               // most GPUs of a job, as a multiple of its basic demand
  double least_probability = 0.6;      // P_th of eq. 16
  double window_seconds = 8 * 3600.0;  // submissions of the last 8 hours give the rate of arrivals
  int least_gpus = 32;                 // submissions of fewer GPUs are not counted
};

}  // namespace espalier
