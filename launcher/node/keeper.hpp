// The keeper: a process that represents a job on a node. It belongs to no generation's MPI world.
#pragma once

#include <string>

namespace espalier::launcher {

// The body of an extension's batch script. Keeps the node's vault, exchanges heartbeats with the launcher, and passes
// Slurm's notice on. Gives the node back when the launcher says so or is lost; that of a movable job then holds the
// node as keep_base() does. Returns the exit code. Throws Error when the environment is not an extension's.
int keep_extension();

// The body of the anchor step's tasks except task 0. Waits until the launcher tells this task to leave or is gone,
// because a task that ends before task 0 may end the step. One task on each node keeps the node's vault. Returns the
// exit code. Throws Error when the environment is not a Slurm step's.
int keep_anchor();

// A keeper of a movable job's base. `batch`: the body of the base's batch script, which also starts the keepers of the
// base's other nodes, as a step. Keeps the node's vault. It ignores SIGTERM: what Slurm ends it kills. Holds the node
// and its state when the launcher is lost, until another launcher comes or there can be none (base_tenure.hpp). Returns
// the exit code. Throws Error when the environment is not a base's.
int keep_base(bool batch);

// Sends SIGKILL to each process of this user on this node whose environment names the Slurm job, except this process.
// Works without slurmctld. Returns how many processes it has killed.
int kill_local_processes(unsigned job);

// Sends SIGKILL to the rank servers on this node that launchers of the job have started before Slurm requeued it for
// the `restarts`-th time. Their ranks die with them. `vault`: the prefix of the names of the job's vaults.
void kill_rank_servers(const std::string& vault, int restarts);

}  // namespace espalier::launcher
