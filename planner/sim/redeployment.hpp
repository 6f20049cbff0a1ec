// What it costs to change from one plan to another, by the way it is done (Suika §3.3, Fig. 10 and 14b).
#pragma once

#include <map>
#include <vector>

#include "planner/core/model/coefficients.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::sim {

enum class Method {
  checkpoint,  // stop, save, start, load: what the paper calls checkpoint-resume
  overlap,     // as before, but the new processes start while the old ones train
  device,      // Suika: state moves from GPU to GPU; what stays on its GPU is copied there (CUDA IPC)
  adopt        // Espalier: what stays on its GPU is not copied at all
};

struct RedeployCost {
  double overlap_seconds = 0;  // from the decision on; the old plan trains
  double pause_seconds = 0;    // after it; nothing trains
  bool operator==(const RedeployCost&) const = default;
};

// What a site has measured of a method, whatever the plans.
struct MeasuredCost {
  double overlap_seconds = 0;
  double pause_seconds = 0;
  double overlap_seconds_per_gpu = 0;  // more, for each GPU of the new plan: processes that start
  bool operator==(const MeasuredCost&) const = default;
};

// Defaults. The paper prints no times but these: about "seconds" to copy 20 GB of local state by CUDA IPC (§3.3), a
// redeployment of LLaMA2-13B from 16 to 24 GPUs 7 times faster than by checkpoint-resume, 4.9 and 4.4 times faster on
// average over a trace (§5.3), no job delayed by more than 60 s (§5.3). Start-up, storage and the share of the network
// are assumptions that give these ratios; a site sets what it has measured.
struct RedeployOptions {
  // From a job's first step until it can be planned for (Suika §3.1: "tens of seconds"): so long, and so many steps.
  double profile_seconds = 30;
  double profile_steps = 0;
  // So many steps of one plan later its coefficients are observed, and its plan may be changed on the GPUs it has.
  // Between the two it is planned by its model's shape and its step's time, as espalierd does.
  double settle_steps = 0;
  double start_seconds = 25;                // processes, CUDA contexts, communicators, the model built
  double storage_gb_s = 10;                 // of one job to and from shared storage; 1e9 bytes
  double local_gb_s = 10;                   // of a GPU copying to itself through CUDA IPC, allocation included
  double network_share = 0.5;               // of the bandwidths that planning uses, what a transfer of state reaches
  double switch_seconds = 4;                // of every pause by `device`: the last step, communicators, the first step
  double adopt_switch_seconds = 0.2;        // the same by `adopt`
  std::map<Method, MeasuredCost> measured;  // instead of the model
  bool operator==(const RedeployOptions&) const = default;
};

// Both plans name GPUs of `site`. Bytes that move: where a GPU's layers and slices under `to` differ from those it has
// under `from`, from a GPU of its own node where one has them, else over its node's rails. With ZeRO-1 optimizer state
// counts by its shard.
RedeployCost redeploy_cost(Method method, const RedeployOptions& options, const Site& site, const JobCoefficients& job,
                           const Plan& from, const Plan& to);

// Of a job that had been stopped and goes on with `gpus` GPUs: its state saved then and loaded now, and the start.
double resume_seconds(const RedeployOptions& options, const JobCoefficients& job, int gpus);

// Parameters and optimizer state of the whole model, bytes.
double state_bytes(const JobCoefficients& job);

// How much of its state one GPU must get under `to`.
struct MovedBytes {
  double local = 0;  // has it already
  double near = 0;   // from its own node
  double far = 0;    // from other nodes
};
// In the order of to.ranks().
std::vector<MovedBytes> moved_bytes(const JobCoefficients& job, const Plan& from, const Plan& to);

// "checkpoint", ...
const char* to_string(Method method);

}  // namespace espalier::sim
