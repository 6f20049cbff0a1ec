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

// On which nodes a waiting job may run: those of its partitions that have the GPU types and features that it asks for,
// and that are in its reservation. One object for each snapshot: jobs that ask for the same are looked at once, since a
// site has thousands of them. What it is made of must outlive it.
class NodesForJobs {
 public:
  using Sets = std::map<std::string, std::set<std::string>>;
  // `types`: of GPUs by node, as Slurm names them; empty for untyped GPUs. `features`: the active ones by node.
  NodesForJobs(const PartitionNodes& partitions, const Sets& types, const Sets& features,
               const std::map<std::string, Reservation>& reservations)
      : partitions_(partitions), types_(types), features_(features), reservations_(reservations) {}
  const std::set<std::string>& of(const slurm_job_info_t& job);
  const std::set<std::string>& all() const { return partitions_.all; }

 private:
  const PartitionNodes& partitions_;
  const Sets& types_;
  const Sets& features_;
  const std::map<std::string, Reservation>& reservations_;
  std::map<std::vector<std::string>, std::set<std::string>> known_;  // by what jobs ask for
};

SlurmJob convert_job(const slurm_job_info_t& job);

// Whether `job` waits for nothing but resources, and GPUs are among them. `now`: seconds since the epoch.
bool waits_for_gpus(const slurm_job_info_t& job, double now);
// `slurm_preempts`: extensions, for jobs that wait.
WaitingJob convert_waiting(const slurm_job_info_t& job, NodesForJobs& nodes, bool slurm_preempts, double now);

// A PreemptMode as Slurm writes it, without GANG and WITHIN: "CANCEL", "OFF".
std::string preempt_mode_text(std::uint16_t mode);

}  // namespace espalier
