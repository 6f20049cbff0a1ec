// What it costs to change from one plan to another, by the way it is done (Suika §3.3, Fig. 10 and 14b).
#pragma once

#include "planner/core/model/coefficients.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier::sim {

enum class Method {
  checkpoint,  // stop, save, start, load: what the paper calls checkpoint-resume
  overlap,     // as before, but the new processes start while the old ones train
  device,      // Suika: state moves from GPU to GPU, what stays on its GPU is copied through CUDA IPC
  adopt        // Espalier: what stays on its GPU is not copied at all
};

struct RedeployOptions {
  double start_seconds = 25;   // processes, CUDA contexts, communicators; the model built
  double stop_seconds = 0;     // until the old processes have ended, where that is waited for
  double storage_gb_s = 5;     // of one node to and from shared storage; 1e9 bytes
  double local_gb_s = 10;      // copying inside a GPU with its bookkeeping
  double network_share = 0.5;  // of the rails' bandwidth that a transfer of state reaches
  double fixed_seconds = 1;    // of every pause: the switch itself
  double adopt_fixed_seconds = 0.2;
  bool operator==(const RedeployOptions&) const = default;
};

struct RedeployCost {
  double overlap_seconds = 0;  // from the decision on; the old plan trains
  double pause_seconds = 0;    // after it; nothing trains
};

// `from` and `to` name GPUs of `site`.
RedeployCost redeploy_cost(Method method, const RedeployOptions& options, const Site& site, const JobCoefficients& job,
                           const Plan& from, const Plan& to);
// Of a job that starts from what it has saved (it was stopped before).
double resume_seconds(const RedeployOptions& options, const Site& site, const JobCoefficients& job, const Plan& to);
// Of a job that is stopped and waits again: what it takes to save.
double save_seconds(const RedeployOptions& options, const JobCoefficients& job, const Plan& from);

// Parameters and optimizer state of the whole model, bytes.
double state_bytes(const JobCoefficients& job);

}  // namespace espalier::sim
