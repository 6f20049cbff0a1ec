// What must hold after every event of a history, and what must be true in its end.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/sim/history.hpp"

namespace espalier::sim {

class Invariants {
 public:
  explicit Invariants(History& history);
  void after_event();
  void completed(JobId job, int generation, std::int64_t step);
  void recovered(JobId job, int generation, std::int64_t step, const std::string& from);
  void generation_lost(JobId job);
  void job_ended(JobId job);  // by its launcher's own doing
  void placed(JobId job, const GpuId& gpu, JobId step_of);

 private:
  // One job's training as its ranks see it.
  bool leaves_late(JobId job) const;
  int failed_starts(JobId job) const;
  struct Steps {
    std::int64_t last = 0;
    int generation = 0;
    std::map<int, std::int64_t> first;  // by generation that has trained: its first step
  };
  // A condition that may hold for so long only. Seconds in which the surroundings are disturbed do not count.
  class Patience;
  Seconds longest_switch() const;
  void each_half_second();
  void one_generation_trains();
  void jobs_progress();
  void phases_end();
  void extensions_are_owned();
  void decisions_end();
  void end_of_history();
  std::string disagreement();  // between planner, launchers and Slurm; empty: none
  std::string store_differs();
  std::string open_in_store();
  std::string leftover();  // after the last job's end
  // `bad` may hold for `bound` seconds on end. Those in which the surroundings are disturbed do not count.
  void holds(const std::string& key, bool bad, Seconds bound, const std::string& what);

  History& history_;
  std::map<JobId, Steps> steps_;
  std::map<std::string, Seconds> since_;  // seconds for which a bad condition has held
  Seconds calm_since_ = -1, agreed_since_ = -1, ended_since_ = -1;
  std::map<JobId, int> changes_;             // of the launchers' states, at the last look
  std::string said_;                         // the last disagreement
  std::map<JobId, std::int64_t> agreed_at_;  // the jobs' steps then
};

}  // namespace espalier::sim
