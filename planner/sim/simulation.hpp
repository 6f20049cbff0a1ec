// Discrete-event simulation of one workload on one cluster under one policy. Time, arrivals,
// training progress and redeployments are simulated. Speeds are the performance model's (exact
// recurrence) with the jobs' true coefficients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/sim/delays.hpp"
#include "planner/sim/policy.hpp"
#include "planner/sim/slurm_priority.hpp"

namespace espalier::sim {

struct SimulationOptions {
  QueueOrder queue = QueueOrder::fifo;
  SlurmQueueOptions slurm;  // for QueueOrder::slurm
  RedeployOptions redeploy;
  Delays delays;
  // Standard deviation of the relative error in policies' knowledge of a job's computation and
  // optimizer times (0.1: 10%). Each job and GPU type has its own draws. True speeds are not
  // affected.
  double prediction_error = 0;
  std::uint64_t seed = 1;  // seed of the errors
  // Called now and then with the share of complete jobs.
  std::function<void(double)> progress;
  // Returns seconds; measures the latency of decisions. Empty: latency is not measured.
  std::function<double()> clock;
};

struct JobOutcome {
  JobId id = 0;
  double submit = 0, start = 0, end = 0;
  int gpus = 0;  // of the basic plan
  int redeployments = 0;
  int most_gpus = 0;
  double gpu_seconds = 0, lost_gpu_seconds = 0;  // held; the part of it without training
  bool elastic = true;
  double alone = 0;     // seconds that it would take on its basic plan, alone and without delay
  double deadline = 0;  // as `submit`; 0: none
  int moves = 0;        // of its base to another place; without those from a smaller base to the one that it asked for
  bool started_smaller = false;
  double jct() const { return end - submit; }
  // Finish-time fairness: its completion time over that alone on its own GPUs (Themis).
  double rho() const { return alone > 0 ? jct() / alone : 1; }
};

struct Level {
  double time = 0;
  int gpus = 0;  // allocated GPUs from then on
};

struct PolicyRun {
  std::string policy;
  // The order in which it took waiting jobs: that of a base queue; "own"; or "own, QUEUE" where the policy starts jobs
  // itself, and first tries the one that is first in that base queue.
  std::string order;
  std::vector<JobOutcome> jobs;  // sorted by id
  std::vector<Level> levels;     // allocated GPUs over time
  int gpus = 0;                  // of the cluster
  long decisions = 0, redeployments = 0;
  std::vector<double> latencies;  // latencies of decisions, in the clock's seconds
};

// Runs one simulation. In `cluster` all GPUs are idle and nodes are sorted by name. Every job must
// fit on the empty cluster. `jobs` are sorted by submission and have ids 1, 2, ... Deterministic.
// Throws Error when the policy breaks its contract (policy.hpp).
PolicyRun simulate(std::shared_ptr<const Site> site, const ClusterView& cluster, const std::vector<JobKind>& kinds,
                   const std::vector<SimulatedJob>& jobs, Policy& policy, const SimulationOptions& options);

}  // namespace espalier::sim
