// A lower bound of the average job completion time that any schedule of a workload can have.
//
// It is the larger of two bounds:
// - All GPUs are one machine that serves one job at a time, and every job needs the least GPU time of
//   any of its plans. Preemptive shortest remaining time first is optimal there (Schrage 1968). GPUs
//   of different types have prices; the bound holds for all prices, and the best of a few is taken.
// - Every job runs alone on the cluster, on a plan that is faster than each of its plans.
//
// Both use times of the performance model that no plan can be below: the computation of all samples
// and layers and the optimizer, without communication; and one sample's way through all layers. For
// measured jobs they are the least measured times.
#pragma once

#include <vector>

#include "planner/sim/delays.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

struct JctBound {
  double one_machine = 0, alone = 0;  // seconds, each a lower bound of the average
  double seconds() const { return one_machine > alone ? one_machine : alone; }
};

JctBound jct_bound(const Site& site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                   const std::vector<SimulatedJob>& jobs, const Delays& delays = {});

// GPU milliseconds that an iteration takes at least, if all of it is on GPUs of this type. Infinity:
// it cannot run there.
double least_gpu_ms(const JobKind& kind, int type);

// Milliseconds that an iteration takes at least, on all GPUs of the cluster. `gpus`: by type.
double least_step_ms(const JobKind& kind, const Hardware& hardware, const std::vector<int>& gpus);

// Average completion time of preemptive shortest remaining time first on one machine. `work[j]`:
// seconds that job j needs alone; `release[j]`: ascending.
double srpt_average(const std::vector<double>& release, const std::vector<double>& work);

}  // namespace espalier::sim
