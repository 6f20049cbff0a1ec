// The faults of a history. The seed decides which faults come, when, and how often each kind comes.
#pragma once

#include <array>

#include "tests/sim/history.hpp"

namespace espalier::sim {

class Faults {
 public:
  explicit Faults(History& history);
  void begin(Seconds until);  // faults come until then; after that everything works again
  void after_event();         // may add a fault when a launcher has just changed its state
  bool loses_answer();        // whether the answer to a call of slurmctld is lost
  // Whether a fault so far may cost a job its generation, or end a job early.
  bool may_lose() const { return may_lose_; }
  bool may_end_jobs() const { return may_end_ || losses_ > 1 || (losses_ > 0 && may_delay_); }
  // Whether a fault so far may make a generation leave an extension too late.
  bool may_delay() const { return may_delay_; }
  // The end of the last disturbance of the surroundings. Time limits count from there.
  Seconds last() const { return last_; }
  int strikes() const { return strikes_; }  // the number of faults so far

 private:
  using Kind = void (Faults::*)();
  void next(Seconds until);
  void strike();
  void loss();
  void disturbed(Seconds for_seconds);

  void plain_job();
  void planner_dies();
  void dies_in_between();
  void launcher_dies();
  void keeper_dies();
  void rank_dies();
  void rank_stands_still();
  void link_breaks();
  void node_fails();
  void node_is_cut();
  void slurmctld_stands();
  void somebody_stands_still();
  void extension_cancelled();
  void job_cancelled();
  void disk_fills();
  void user_asks();
  void store_is_lost();
  void base_cancelled();
  void launchers_node_fails();
  void node_dies(const std::string& name);
  void replans(Seconds until);
  void propose_in_place(const LiveJob& live);
  void user_moves(Seconds until);

  History& history_;
  std::array<double, 19> weights_{};
  double rate_ = 0;       // faults per second
  double in_change_ = 0;  // probability of a fault per change of a launcher's state
  double lost_answers_ = 0;
  Seconds last_ = 0;
  Seconds silence_ = 0;  // in total, in which launchers and keepers stood still
  int losses_ = 0, strikes_ = 0;
  int replanned_ = 0;
  bool may_lose_ = false, may_end_ = false, may_delay_ = false;
};

}  // namespace espalier::sim
