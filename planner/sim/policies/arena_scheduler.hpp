// Arena's scheduler (EuroSys '26, §3.5 and Alg. 1) over counts of GPUs of each type. Where the GPUs
// are is decided afterwards, by buddy allocation and migration (reallocation.hpp).
//
// The paper leaves these choices open, or its text is lost:
// - Three queues. A job moves up one queue for each half hour that it waits.
// - In the first queue no job passes another one. In the others a job may, and is stopped when the
//   job that it passed can use its GPUs.
// - A running job may be halved down to a quarter of the GPUs that it asked for (its artifact: not
//   below half at the time of halving).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::sim {

struct ArenaOptions {
  double round_seconds = 300;  // "schedules job launch and completion events every 5 minutes" (§4)
  int depth = 3;               // of iterative scaling (§5.8)
  int queues = 3;
  double promote_seconds = 1800;
  int upgrades = 10;   // most steps that grow running jobs in a round (the artifact's)
  int most_gpus = 16;  // of a job, unless it asks for more
};

// One job as the scheduler sees it.
struct ArenaJob {
  JobId id = 0;
  // Samples per second by pool and by the binary logarithm of the GPUs. Not above 0: impossible.
  const std::vector<std::vector<double>>* throughput = nullptr;
  int asked_pool = 0, asked_gpus = 1;  // a count on which it can run
  int pool = -1, gpus = 0;             // that it has, and afterwards that it shall have; 0: it waits
  bool fixed = false;                  // it is being redeployed: it stays as it is
  double waited = 0;                   // seconds without GPUs, of all its waits
};

class ArenaScheduler {
 public:
  explicit ArenaScheduler(const ArenaOptions& options) : options_(options) {}
  // Changes pool and gpus of the jobs. `jobs`: all jobs in the system, sorted by id. `capacity`: GPUs
  // of each pool. Remembers from call to call which jobs it knows and which have passed others.
  void round(std::vector<ArenaJob>& jobs, const std::vector<int>& capacity);
  bool is_opportunistic(JobId job) const { return blockers_.contains(job); }

 private:
  struct Edit {
    std::size_t job = 0;
    int pool = 0, gpus = 0;
  };
  struct Trial {
    std::vector<int> free;
    std::vector<Edit> edits;  // one per job at most
    double gain = 0;
  };
  double speed(std::size_t job, int pool, int gpus) const;
  Edit place_of(const Trial& trial, std::size_t job) const;
  void set(Trial& trial, const Edit& edit) const;
  bool try_to_place(Trial& trial, std::size_t job) const;
  std::vector<Trial> downgraded(const Trial& trial, std::size_t job) const;
  bool fit(std::size_t job, std::vector<int> free, std::vector<Edit>& edits) const;
  int queue_of(const ArenaJob& job) const;
  std::vector<std::size_t> waiting() const;
  std::vector<int> free_now() const;
  bool launch(std::size_t job);
  void launch_those_that_fit();
  void suspend_for(std::size_t job, const std::vector<Edit>& edits);
  void upgrade();
  const std::vector<std::size_t>& running_in(int pool) const { return running_[static_cast<std::size_t>(pool)]; }
  void note_running();

  const ArenaOptions options_;
  std::map<JobId, std::set<JobId>> blockers_;  // of a running opportunistic job: those that it passed
  // Of one call:
  std::vector<ArenaJob>* jobs_ = nullptr;
  std::vector<int> capacity_;
  std::vector<std::vector<std::size_t>> running_;  // by pool; jobs that may be changed
};

}  // namespace espalier::sim
