// The conditions that must hold after every event of a history, and at its end.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/sim/base_invariants.hpp"
#include "tests/sim/history.hpp"

namespace espalier::sim {

class Invariants {
 public:
  explicit Invariants(History& history);
  void after_event();
  void completed(JobId job, int generation, std::int64_t step);
  void recovered(JobId job, int generation, std::int64_t step, const std::string& from);
  void generation_lost(JobId job);
  // Its next launcher starts there. `lost`: when the one before ended; 0: it has not.
  void requeued(JobId job, const std::string& node, Seconds lost);
  void job_ended(JobId job);  // its launcher ended it
  void placed(JobId job, const GpuId& gpu, JobId step_of);
  BaseInvariants& bases() { return bases_; }

 private:
  bool leaves_late(JobId job) const;
  int usable_gpus(JobId job) const;
  void look_at_recoveries();
  int failed_starts(JobId job) const;
  // One job's training as its ranks see it.
  struct Steps {
    std::int64_t last = 0;
    int generation = 0;
    int recoveries = 0;                 // since that step was done
    std::map<int, std::int64_t> first;  // the first step of each generation that has trained
  };
  class Patience;
  struct Left {
    std::int64_t step = 0;
    int strikes = 0;
    bool told = true;  // a keeper was told of the newest generation
  };
  std::map<JobId, Left> left_;  // when its launcher started: the state that the keepers held
  Seconds longest_switch() const;
  void each_half_second();
  void one_generation_trains();
  void floor_is_kept();
  void jobs_progress();
  void phases_end();
  void extensions_are_owned();
  void decisions_end();
  void end_of_history();
  std::string disagreement();  // between planner, launchers and Slurm; empty: none
  std::string store_differs();
  std::string open_in_store();
  std::string leftover();  // after the last job's end
  // `bad` may be true for `bound` seconds in a row. Seconds in which the surroundings are disturbed do not count.
  void holds(const std::string& key, bool bad, Seconds bound, const std::string& what);

  History& history_;
  BaseInvariants bases_;
  std::map<JobId, Steps> steps_;
  std::map<JobId, int> fewest_;           // usable GPUs of each job in its last recovery
  std::map<std::string, Seconds> since_;  // seconds for which a condition has been bad
  Seconds calm_since_ = -1, agreed_since_ = -1, ended_since_ = -1;
  std::map<JobId, int> changes_;             // how often each launcher's state had changed at the last look
  std::string said_;                         // the last disagreement
  std::map<JobId, std::int64_t> agreed_at_;  // each job's last step when the agreement began
};

}  // namespace espalier::sim
