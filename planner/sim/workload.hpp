// From a trace to LLM training jobs (Suika §5.1).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/sim/policy.hpp"
#include "planner/sim/trace.hpp"

namespace espalier::sim {

// random: any kind, by the mix of sizes, evenly within a size. gpus: the kind whose GPU count is nearest to the job's
// (a site's own jobs). A job whose model is a kind's keeps it either way.
enum class Mapping { random, gpus };

struct WorkloadOptions {
  double from = -std::numeric_limits<double>::infinity();  // submissions in [from, to), the trace's clock
  double to = std::numeric_limits<double>::infinity();
  // Of the cluster that the trace is from: its jobs are sampled in proportion. 0: all jobs are taken.
  int trace_gpus = 0;
  double scale = 1;                       // times so many jobs are sampled
  double load = 1;                        // intervals between submissions are divided by it (Suika §5.4 b)
  std::array<double, 4> mix{3, 1, 1, 0};  // S : M : L : XL
  Mapping mapping = Mapping::random;
  std::uint64_t seed = 1;
};

struct Workload {
  std::vector<SimulatedJob> jobs;  // sorted by submission, which begins at 0; ids 1, 2, ...
  long in_window = 0;              // jobs of the trace that it was sampled from
  double gpu_seconds = 0;          // that the jobs take on their basic plans; what the sampled ones took in the trace
};

// Submission times are kept; iterations are such that a job would run as long as in the trace, times one factor for all
// that makes the GPU time of all jobs what it was in the trace. With Mapping::gpus each job's own GPU time is kept.
// Jobs whose steps the trace tells do these.
// Throws Error: nothing to sample, more jobs wanted than there are, no kind of a size that the mix wants.
Workload make_workload(const Trace& trace, const std::vector<JobKind>& kinds, int cluster_gpus,
                       const WorkloadOptions& options);

}  // namespace espalier::sim
