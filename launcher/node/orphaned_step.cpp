#include "launcher/node/orphaned_step.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "launcher/slurm/job_output.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::launcher {
namespace {

bool has(const SlurmJob& job, const std::string& node) {
  return std::any_of(job.holdings.begin(), job.holdings.end(),
                     [&](const Holding& holding) { return holding.node == node; });
}

}  // namespace

Orphan orphan_of(const std::optional<SlurmJob>& job, const std::string& launcher) {
  if (!job || job->state != SlurmJob::State::running || has(*job, launcher)) return Orphan::none;
  // Slurm goes on naming the node that the batch script was started on.
  if (job->batch_host.empty() || has(*job, job->batch_host)) return Orphan::step;
  return job->may_be_requeued ? Orphan::requeue : Orphan::ends;
}

// The first node of the list has task 0 in every distribution of tasks.
std::string launchers_node() {
  try {
    const auto nodes = expand_hosts(std::getenv("SLURM_STEP_NODELIST"));
    return nodes.empty() ? "" : nodes.front();
  } catch (const Error&) {
    return "";
  }
}

bool ends_as_orphan(const JobContext& context, const std::string& launcher) {
  const Orphan orphan = orphan_of(load_job(context.job), launcher);
  if (orphan == Orphan::none) return false;
  const std::string what = "espalier: keeper: node " + launcher +
                           ", where the launcher ran, was lost, and Slurm keeps job " + std::to_string(context.job) +
                           " on its other nodes; ";
  if (orphan == Orphan::step) {
    // srun is there, and passes on what this process writes.
    std::fprintf(stderr, "%sthis step ends; run it again to go on from the newest checkpoint\n", what.c_str());
    end_step(context.job, context.step);
    return true;
  }
  // Asked before: from then on Slurm ends this process, and what it starts.
  const std::string output = output_of(context.job);
  if (orphan == Orphan::requeue) {
    requeue(context.job);
    add_line(output, what + "its batch script was lost, too: the job is requeued");
    return true;
  }
  add_line(output,
           what +
               "its batch script was lost, too, and it may not be requeued: the job ends; submit it again, best "
               "with --requeue, to go on from the newest checkpoint");
  give_back(context.job, context.step);
  return true;
}

}  // namespace espalier::launcher
