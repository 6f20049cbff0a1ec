// Slurm's job records into ours.
#pragma once

#include <slurm/slurm.h>

#include <map>
#include <set>
#include <string>

#include "planner/daemon/slurm.hpp"

namespace espalier {

struct PartitionNodes {
  std::map<std::string, std::set<std::string>> by_partition;
  std::set<std::string> all;  // every node of the cluster
};

SlurmJob convert_job(const slurm_job_info_t& job);

// Whether `job` waits for nothing but resources, and GPUs are among them. `now`: seconds since the epoch.
bool waits_for_gpus(const slurm_job_info_t& job, double now);
// `slurm_preempts`: extensions, for jobs that wait.
WaitingJob convert_waiting(const slurm_job_info_t& job, const PartitionNodes& partitions, bool slurm_preempts,
                           double now);

// A PreemptMode as Slurm writes it, without GANG and WITHIN: "CANCEL", "OFF".
std::string preempt_mode_text(std::uint16_t mode);

}  // namespace espalier
