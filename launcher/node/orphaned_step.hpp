// The end of an elastic step whose launcher is lost with its node, where Slurm has kept the job on its other nodes.
#pragma once

#include <optional>
#include <string>

#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

enum class Orphan {
  none,    // the job has the launcher's node, or ends anyway
  step,    // the job's script, or who runs srun, goes on once the step has ended
  ends,    // the batch script was on a lost node, too: nobody would end the job before its time limit
  requeue  // the same, and Slurm may run the job once more
};
// `launcher`: the node where it ran. Pure.
Orphan orphan_of(const std::optional<SlurmJob>& job, const std::string& launcher);

// The node of the launcher: task 0 of this step. Empty: Slurm does not tell.
std::string launchers_node();

// Asks Slurm, and ends the step or the job, or has the job requeued, where the launcher's node is gone from the job.
// The user is told. True: so it was, and this keeper must leave. Throws Error when slurmctld is away or refuses.
// Blocks.
bool ends_as_orphan(const JobContext& context, const std::string& launcher);

}  // namespace espalier::launcher
