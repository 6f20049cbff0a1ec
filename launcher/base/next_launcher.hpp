// Whether Slurm has requeued the job: the bases are another launcher's then. A launcher that was cut off does not
// notice that by itself, and asks. Callbacks run on the loop.
#pragma once

#include <functional>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

class NextLauncher {
 public:
  NextLauncher(BlockingThread& slurm, const JobContext& context, std::function<void()> found)
      : slurm_(slurm), context_(context), found_(std::move(found)) {}
  void look();                      // asks Slurm at one of three calls
  void found();                     // somebody else has heard it
  void stop() { stopped_ = true; }  // for the end of the job: what is found from now on counts no more
  bool there() const { return there_; }

 private:
  BlockingThread& slurm_;
  const JobContext& context_;
  const std::function<void()> found_;
  int looks_ = 0;
  bool there_ = false, stopped_ = false;
};

}  // namespace espalier::launcher
