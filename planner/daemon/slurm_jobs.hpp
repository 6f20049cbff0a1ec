// Slurm's job records into ours.
#pragma once

#include <slurm/slurm.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "planner/core/node_list.hpp"
#include "planner/daemon/array_tasks.hpp"
#include "planner/daemon/slurm.hpp"

namespace espalier {

struct PartitionNodes {
  std::map<std::string, std::set<std::string>> by_partition;
  std::set<std::string> all;  // every node of the cluster
};

// On which nodes a waiting job may run: those of its partitions that have the GPU types and features that it asks for,
// and that are in its reservation. One object for each snapshot. What it is made of must outlive it. A site has
// thousands of waiting jobs, and each user writes what they ask for, so that the work is bounded: jobs that ask for the
// same are looked at once; a constraint is compared with each different set of features, not with each node. After
// kMostRequests different requests or kMostNames names of nodes, and for a longer constraint than kLongestConstraint
// bytes, the partitions alone count.
class NodesForJobs {
 public:
  using Sets = std::map<std::string, std::set<std::string>>;
  // `types`: of GPUs by node, as Slurm names them; empty for untyped GPUs. `features`: by node, those that Slurm can
  // have it reboot for too. `owners`: by node, the user for whose jobs alone Slurm keeps it.
  NodesForJobs(const PartitionNodes& partitions, const Sets& types, const Sets& features,
               const std::map<std::string, Reservation>& reservations, std::map<std::string, uid_t> owners = {});
  // Without those that the job excludes, and those that Slurm keeps for other users. An empty list: it may run on every
  // node of the cluster. nullopt: on none. Jobs that ask for the same and exclude nothing share one list, unless Slurm
  // keeps nodes for their users.
  std::optional<NodeList> without(const slurm_job_info_t& job, const std::vector<std::string>& excluded);

  bool is_kept_from(uid_t user, const std::string& node) const;

  static constexpr std::size_t kMostRequests = 256, kLongestConstraint = 256, kMostNames = 200'000;

 private:
  struct Answer {
    std::set<std::string> nodes;
    NodeList list;  // the same; empty: all of the cluster
  };
  Answer answer(std::set<std::string> nodes) const;
  std::optional<NodeList> narrowed(const slurm_job_info_t& job, const Answer& asked,
                                   const std::vector<std::string>& excluded);
  const Answer& find(const slurm_job_info_t& job);
  // By its partitions alone.
  const Answer& of_partitions(const slurm_job_info_t& job);
  std::set<std::string> fitting(const std::vector<std::string>& asked, const std::set<std::string>& types,
                                const std::set<std::string>& partitions) const;

  const PartitionNodes& partitions_;
  const Sets& types_;
  const std::map<std::string, Reservation>& reservations_;
  const std::map<std::string, uid_t> owners_;
  std::set<uid_t> owning_;  // users who own a node
  const Answer everywhere_;
  std::map<std::set<std::string>, std::set<std::string>> by_features_;  // the nodes that have exactly these
  std::map<std::string, Answer> known_partitions_;                      // by a job's list of partitions
  std::map<std::vector<std::string>, Answer> known_;                    // by what jobs ask for
  // What is left of an answer for a user who owns nodes; nullopt: for those who own none.
  std::map<std::pair<const Answer*, std::optional<uid_t>>, std::optional<NodeList>> known_open_;
  std::size_t named_ =
      0;  // nodes, in all answers of known_, in known_open_, and in the lists of jobs that exclude some
};

SlurmJob convert_job(const slurm_job_info_t& job);

// Adds the job's user to each node that it has. A job that waits or has ended has none.
void add_user(const slurm_job_info_t& job, std::map<std::string, std::set<uid_t>>& users);

// Marks the nodes of `cluster` on which the job runs without a GPU of theirs. `job`: of `record`.
void note_cpu_job(const slurm_job_info_t& record, const SlurmJob& job, ClusterView& cluster);

// Whether `job` waits for nothing but resources. `now`: seconds since the epoch.
bool waits_for_resources(const slurm_job_info_t& job, double now);
// `slurm_preempts`: extensions, for jobs that wait. `running`: tasks of arrays, of all records. nullopt: there is no
// node that the job may have, or it is an array that may have no more tasks now.
std::optional<WaitingJob> convert_waiting(const slurm_job_info_t& job, NodesForJobs& nodes, bool slurm_preempts,
                                          double now, const RunningTasks& running = {});

// A PreemptMode as Slurm writes it, without GANG and WITHIN: "CANCEL", "OFF".
std::string preempt_mode_text(std::uint16_t mode);

}  // namespace espalier
