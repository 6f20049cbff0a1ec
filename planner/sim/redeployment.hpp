// Cost of a change from one plan to another, by method (Suika §3.3, Fig. 10 and 14b).
#pragma once

#include <map>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::sim {

enum class Method {
  checkpoint,  // stop, save, start, load; the paper's checkpoint-resume
  overlap,     // like checkpoint, but the new processes start while the old ones train
  // Suika: state moves from GPU to GPU. State that stays on its GPU is copied there (CUDA IPC).
  device,
  adopt  // Espalier: state that stays on its GPU is not copied
};

struct RedeployCost {
  double overlap_seconds = 0;  // starts with the decision; the old plan trains
  double pause_seconds = 0;    // follows the overlap; nothing trains
  bool operator==(const RedeployCost&) const = default;
};

// A site's measurements of a method. They apply to all plans.
struct MeasuredCost {
  double overlap_seconds = 0;
  double pause_seconds = 0;
  // Additional overlap for each GPU of the new plan, for processes that start.
  double overlap_seconds_per_gpu = 0;
  bool operator==(const MeasuredCost&) const = default;
};

// Options of the cost model. The paper prints only these times:
// - Copying 20 GB of local state by CUDA IPC takes about "seconds" (§3.3).
// - Redeploying LLaMA2-13B from 16 to 24 GPUs is 7 times faster than by checkpoint-resume. Over a
//   trace it is 4.9 and 4.4 times faster on average (§5.3).
// - No job is delayed by more than 60 s (§5.3).
// The defaults of start-up, storage and the share of the network are assumptions that give these
// ratios. A site sets its own measurements.
struct RedeployOptions {
  // Time from a job's first step until it can be planned for (Suika §3.1: "tens of seconds"): the
  // sum of these seconds and these steps.
  double profile_seconds = 30;
  double profile_steps = 0;
  // Steps of one plan after that until its coefficients are observed. Then its plan may be changed
  // on the GPUs it has. Before, it is planned by its model's shape and its step time, as espalierd
  // does.
  double settle_steps = 0;
  // Start of processes, CUDA contexts and communicators, and building the model.
  double start_seconds = 25;
  // Bandwidth of one job to and from shared storage; 1 GB is 1e9 bytes.
  double storage_gb_s = 10;
  // Bandwidth of a GPU's copy to itself through CUDA IPC, including allocation.
  double local_gb_s = 10;
  // Share of planning's bandwidths that a transfer of state reaches.
  double network_share = 0.5;
  // Constant part of a pause by `device`: the last step, communicators, the first step.
  double switch_seconds = 4;
  double adopt_switch_seconds = 0.2;        // the same by `adopt`
  std::map<Method, MeasuredCost> measured;  // replaces the model
  // The search for a job's plan, at each start and each change: so many seconds for each GPU, at most
  // `search_most_seconds`. The job holds its GPUs meanwhile. `pruned_`: where a policy knows the plan
  // beforehand (Arena §3.6).
  double search_seconds_per_gpu = 0, search_most_seconds = 0;
  double pruned_seconds_per_gpu = 0, pruned_most_seconds = 0;
  bool operator==(const RedeployOptions&) const = default;
};

// Seconds of the search for a plan on `gpus` GPUs.
double search_seconds(const RedeployOptions& options, bool pruned, int gpus);

// Cost of changing from `from` to `to`. Both plans name GPUs of `site`. Bytes move if a GPU's
// layers and slices under `to` differ from its layers and slices under `from`. They come from a GPU
// of the same node if one holds them, else over the node's rails. With ZeRO-1 only the shard of the
// optimizer state counts.
RedeployCost redeploy_cost(Method method, const RedeployOptions& options, const Site& site, const JobCoefficients& job,
                           const Plan& from, const Plan& to);

// Time to resume a stopped job on `gpus` GPUs: saving its state when it stopped, loading it now,
// and the start.
double resume_seconds(const RedeployOptions& options, const JobCoefficients& job, int gpus);

// Parameters and optimizer state of the whole model, bytes.
double state_bytes(const JobCoefficients& job);

// Bytes of state that one GPU needs under `to`, by their place.
struct MovedBytes {
  double local = 0;  // the GPU has them already
  double near = 0;   // from GPUs of its own node
  double far = 0;    // from other nodes
};
// In the order of to.ranks().
std::vector<MovedBytes> moved_bytes(const JobCoefficients& job, const Plan& from, const Plan& to);

// "checkpoint", ...
const char* to_string(Method method);

}  // namespace espalier::sim
