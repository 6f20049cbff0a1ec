// How long the bases of a movable job may run. Pure. Times are seconds since the epoch; 0: never.
//
// The user's limit applies to the sum of the bases' times: a base that takes another one's place gets what is left of
// the limit, also from a launcher that runs after Slurm has requeued the job. While training moves both bases run, for
// a minute or so, and that counts once. No base outlives the submitted job, and none runs longer than its partition
// allows: Slurm would let such a base wait for ever.
#pragma once

#include <ctime>

namespace espalier::launcher {

class BaseTime {
 public:
  // `job_ends`: when the time limit of the submitted job is over. `limit_minutes`: what the user gave as time=; 0: the
  // bases' limit is the submitted job's own, which also counts while the first base waits. `most_minutes`: MaxTime of
  // the bases' partition; 0: it has none.
  explicit BaseTime(std::time_t job_ends, long limit_minutes = 0, long most_minutes = 0)
      : job_ends_(job_ends), limit_seconds_(limit_minutes * 60), most_seconds_(most_minutes * 60) {}

  // Training is on a base that Slurm ends then. The end of this launcher's first one counts: whole minutes, which a
  // later base loses, do not add up.
  void began(std::time_t base_ends);
  // What Slurm says now of the base that training is on, and of the submitted job. An administrator may have changed
  // their time limits, and a user may have lowered them: later bases have as much more or less.
  void seen(std::time_t base_ends, std::time_t job_ends);
  // When a base that starts now ends. With time= or MaxTime a few seconds later, as Slurm counts whole minutes.
  std::time_t ends(std::time_t now) const;
  // After this time no base runs. It differs from ends() while none has run.
  std::time_t last() const;

 private:
  std::time_t job_ends_, limit_seconds_, most_seconds_;
  std::time_t trained_until_ = 0;  // by the limit on the sum of the times
  std::time_t base_ends_ = 0;      // of the base that training is on, as Slurm last said
  bool began_ = false;
};

}  // namespace espalier::launcher
