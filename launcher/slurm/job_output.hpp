// What a batch job's user reads of it, for a process of the job whose own output nobody passes on any more.
#pragma once

#include <string>

#include "planner/core/job.hpp"

namespace espalier::launcher {

// The file that the job's batch script writes its errors to; empty: Slurm does not tell. Blocks while scontrol asks
// slurmctld, at most 15 s.
std::string output_of(JobId job);

// Adds a line to such a file. Does nothing where it is not there.
void add_line(const std::string& file, const std::string& line);

// The file's path in what `scontrol -o show job` prints; empty: it names none. Pure.
std::string output_in(const std::string& record);

}  // namespace espalier::launcher
