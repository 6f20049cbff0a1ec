// Discrete-event simulation of one workload on one cluster under one policy. Time, arrivals, training progress and
// redeployments are simulated; speeds are the performance model's (exact recurrence) with the jobs' true coefficients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/sim/delays.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

struct SimulationOptions {
  QueueOrder queue = QueueOrder::fifo;
  RedeployOptions redeploy;
  Delays delays;
  // Standard deviation of the relative error in what policies know of a job's computation and optimizer, one draw each
  // per job and GPU type (0.1: 10%). What runs is not affected.
  double prediction_error = 0;
  std::uint64_t seed = 1;  // of the errors
  // Called now and then with the share of jobs that are complete.
  std::function<void(double)> progress;
  std::function<double()> clock;  // seconds; for the latency of decisions. Empty: not taken.
};

struct JobOutcome {
  JobId id = 0;
  double submit = 0, start = 0, end = 0;
  int gpus = 0;  // of the basic plan
  int redeployments = 0;
  int most_gpus = 0;
  double gpu_seconds = 0, lost_gpu_seconds = 0;  // held; of it while nothing trained
  double jct() const { return end - submit; }
};

struct Level {
  double time = 0;
  int gpus = 0;  // allocated from then on
};

struct PolicyRun {
  std::string policy;
  std::vector<JobOutcome> jobs;  // sorted by id
  std::vector<Level> levels;     // allocated GPUs over time
  int gpus = 0;                  // of the cluster
  long decisions = 0, redeployments = 0;
  std::vector<double> latencies;  // of decisions, seconds of the clock
};

// `cluster`: all GPUs idle, nodes sorted by name. Every job must fit on the empty cluster, and be sorted by submission
// with ids 1, 2, ... Deterministic. Throws Error when the policy breaks its contract (policy.hpp).
PolicyRun simulate(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                   const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options);

}  // namespace espalier::sim
