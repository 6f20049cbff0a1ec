// Turns a trace into LLM training jobs (Suika §5.1).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/sim/policy.hpp"
#include "planner/sim/trace.hpp"

namespace espalier::sim {

// random: a random kind by the mix of sizes, evenly within a size. gpus: the kind whose GPU count
// is nearest to the job's (for a site's own jobs). A job whose trace names a kind's model gets that
// kind in both cases.
enum class Mapping { random, gpus };

// What becomes of the GPU types that a trace names. asked: a job runs on the type that it asks for.
// preferred: policies that choose types may give it another one. any: no job asks for a type.
enum class AskedTypes { asked, preferred, any };

struct WorkloadOptions {
  // Submissions in [from, to), on the trace's clock.
  double from = -std::numeric_limits<double>::infinity();
  double to = std::numeric_limits<double>::infinity();
  // GPUs of the trace's cluster. Jobs are sampled in proportion to the cluster sizes. 0: all jobs
  // are taken.
  int trace_gpus = 0;
  double scale = 1;  // factor on the number of sampled jobs
  // Intervals between submissions are divided by it (Suika §5.4 b).
  double load = 1;
  std::array<double, 4> mix{3, 1, 1, 0};  // S : M : L : XL
  Mapping mapping = Mapping::random;
  AskedTypes types = AskedTypes::asked;
  // Share of the jobs that are elastic, chosen at random (FlexTrain §6.4). The seed decides which; a larger share adds
  // jobs to those of a smaller one.
  double elastic_share = 1;
  // Only jobs of these GPU counts may be elastic, and elastic_share is the share of them. Empty: all jobs.
  std::vector<int> elastic_gpus = {};
  // Share of the elastic jobs that are movable, by the seed; a larger share adds jobs to those of a smaller one.
  double movable_share = 0;
  // Deadlines: each job's is its submission plus its time alone on its basic plan, times a factor drawn evenly from
  // [deadline_low, deadline_high], by the seed. ElasticFlow (§6.1) draws from 0.5 to 1.5. 0: no job has a deadline.
  double deadline_low = 0, deadline_high = 0;
  std::uint64_t seed = 1;
};

struct Workload {
  std::vector<SimulatedJob> jobs;  // sorted by submission, starting at 0; ids 1, 2, ...
  long in_window = 0;              // jobs of the trace from which the sample was taken
  // Jobs that asked for a type on which their model cannot run on so many GPUs. They ask for more GPUs
  // of it, or for any type.
  long adapted = 0;
  // GPU time of the jobs on their basic plans. It equals the sampled jobs' GPU time in the trace.
  double gpu_seconds = 0;
};

// Makes the workload. Submission times are kept. Iterations are such that a job runs as long as in
// the trace, times one common factor. The factor makes the total GPU time equal to that in the
// trace. With Mapping::gpus each job keeps its own GPU time. A job with steps in the trace does
// these steps; so does a job with measured_steps, if its kind has measured times. A job that asks for a
// type that the cluster does not have may run on any. Throws Error when there is nothing to sample, when more jobs are
// wanted than there are, or when there is no kind of a size in the mix.
Workload make_workload(const Trace& trace, const std::vector<JobKind>& kinds, int cluster_gpus,
                       const WorkloadOptions& options);

}  // namespace espalier::sim
