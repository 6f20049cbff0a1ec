// Slurm jobs that an earlier launcher of the same job has left: its bases and extensions. They outlive a launcher that
// was lost with its node. Callbacks run on the loop.
#pragma once

#include <functional>
#include <vector>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class LeftJobs {
 public:
  struct Left {
    std::vector<SlurmJob> bases, extensions;  // that run
    JobId waits = 0;                          // the job's first base, which keeps its place in the queue; 0: none
    BaseShape waiting_shape = {};
  };
  using Told = std::function<void(const Left& left)>;
  LeftJobs(wire::Loop& loop, BlockingThread& slurm, const JobContext& context)
      : loop_(loop), slurm_(slurm), context_(context) {}

  // Gives back those that are of no use, and tells those that may be of use: running ones, and the first base if it
  // still waits. Slurm is asked again while it does not answer, for five minutes. After that none is told, and the log
  // says so.
  void ask(Told told);
  bool asking() const { return asking_; }  // Slurm has a question
  void stop();                             // asks no more; a question that Slurm has already is still answered

  // Gives the extensions back, unless Slurm has requeued the job meanwhile: its next launcher has them then.
  void give_back(const std::vector<SlurmJob>& extensions);

 private:
  void ask(int question, const Told& told);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  bool asking_ = false, stopped_ = false;
  wire::Watch again_;
};

}  // namespace espalier::launcher
