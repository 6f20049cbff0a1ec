// Which waiting jobs could start now, and when the others will: one pass of Slurm's sched/backfill over the base queue.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/sim/base_queue.hpp"
#include "planner/sim/slurm_preemption.hpp"

namespace espalier::sim {

// A waiting job in a pass. Either it has a place now, or an expected start.
struct PlannedStart {
  const SimulatedJobState* job = nullptr;
  std::optional<std::vector<GpuId>> place;  // it can start there as soon as no extension is on these GPUs
  bool idle = false;                        // none is
  std::vector<JobId> preempted;  // extensions that Slurm must end for it; none where they are told to end already
  ExpectedStart start;           // without a place; it has a reservation from then on
};

struct StartQuestion {
  const ClusterView* cluster = nullptr;
  const std::vector<JobId>* extensions = nullptr;  // ascending
  const std::set<JobId>* leaving = nullptr;        // extensions that were told to end
  Preemption preempt = Preemption::none;
  double now = 0;
  std::function<double(JobId)> end_of;  // when a running job ends, by its time limit
  int most_jobs = 0;                    // to look at; the order of the queue decides which
};

// The jobs looked at, in the queue's order; it ends early where neither idle nor lent GPUs are left. No job with a
// place delays the start of a job before it, by the time limits of all jobs: it runs beside the nodes that are reserved
// for these, or its limit ends before. A job is placed on idle GPUs where it fits; else also on GPUs of leaving
// extensions; else on lent GPUs. Which of them Slurm preempts is up to preempted_for(); with Preemption::none the place
// is FreeGpus::take()'s, and nothing is preempted. Cost: most_jobs times the nodes and their reservations.
std::vector<PlannedStart> plan_starts(const BaseQueue& queue, const StartQuestion& question);

// Whether that pass also starts a job that comes after all that wait, on these idle GPUs and for so many seconds.
bool starts_behind(const BaseQueue& queue, const StartQuestion& question, const std::vector<Holding>& gpus,
                   double seconds);

// What the scheduler sees of the waiting jobs under QueueOrder::slurm: those with a place, and the first one without,
// with its expected start (compare shown_waiting()).
std::vector<WaitingJob> shown_planned(const std::vector<PlannedStart>& planned, const ClusterView& cluster);

}  // namespace espalier::sim
