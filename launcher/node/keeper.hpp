// The keeper: one job's presence on one node. Not part of any MPI world.
#pragma once

namespace espalier::launcher {

// Script of an extension: heartbeats with the launcher, passes Slurm's notice on, and gives the node back when told to
// or when the launcher is lost. Returns its exit code.
int keep_extension();

// The anchor step's other tasks: wait until the launcher is gone, so that the step ends with task 0 and not before.
int keep_anchor();

// SIGKILLs this user's processes on this node whose environment names the Slurm job, but not this process. Works
// without slurmctld. Returns how many there were.
int kill_local_processes(unsigned job);

}  // namespace espalier::launcher
