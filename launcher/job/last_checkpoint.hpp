// The checkpoint before the time limit of an anchored job ends it. Without it all that was trained since the one before
// would be lost, on all of the job's GPUs. A job without a time limit at its start is not watched, and a movable job
// neither: it is asked for a checkpoint when its base ends. Runs on the loop.
//
//   last.look(unix_seconds());  // every second or so
#pragma once

#include <ctime>
#include <functional>

#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

// How long before the end of the job its last checkpoint is asked for. That is two minutes, or a tenth of the time
// limit if that is less. It is twice a step and the time between two steps, if that is more: the checkpoint is written
// after the step under way, and may be written between steps. Of the time between steps five minutes count at most, as
// e.g. a suspension makes it longer. It is never more than half of the time limit. Pure.
double last_checkpoint_lead(double limit_seconds, double step_seconds, double between_seconds);

class LastCheckpoint {
 public:
  struct Callbacks {
    std::function<bool()> trains;             // a generation that speaks the worker protocol does
    std::function<double()> step_seconds;     // that a step may take
    std::function<double()> between_seconds;  // the longest time between two steps
    // True, once: the job ends soon, and is to write a checkpoint. False: it does not end so soon after all.
    std::function<void(bool soon)> ends;
    std::function<void()> ask;  // asks Slurm about the job; seen() follows, unless Slurm does not answer
  };
  // `context` outlives this object.
  LastCheckpoint(const JobContext& context, Callbacks callbacks);

  // `now`: seconds since the epoch. Asks Slurm once a minute, too: scontrol may have changed the time limit.
  void look(double now);
  // What Slurm says of the running job. `ends`: as in JobContext; 0: there is no time limit any more.
  void seen(std::time_t ends, long limit_minutes);

 private:
  const JobContext& context_;
  Callbacks callbacks_;
  std::time_t ends_;
  long limit_minutes_;
  double asked_at_ = 0;
  bool told_ = false;
};

}  // namespace espalier::launcher
