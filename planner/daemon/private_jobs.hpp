// What a user may read about the jobs of others. Pure.
#pragma once

#include <sys/types.h>

#include <string>

#include "planner/daemon/slurm.hpp"

namespace espalier {

// `text` for `reader`. With PrivateData=jobs in slurm.conf each "job N" that is not known to be a job of the reader is
// "another job". Else the text as it is.
std::string without_jobs_of_others(const std::string& text, const SlurmSnapshot& slurm, uid_t reader);

}  // namespace espalier
