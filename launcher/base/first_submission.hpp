// The submission of a movable job's first base, and changes of where it waits. slurmctld may be away, or its answer may
// be lost: then it is asked whether the base is there before it is submitted again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/base/base_time.hpp"
#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class FirstSubmission {
 public:
  // Once, on the loop. `id` 0: it cannot be submitted, and `why` says so.
  using Told = std::function<void(JobId id, const BaseShape& shape, const std::string& why)>;
  FirstSubmission(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                  std::vector<std::string> environment);

  void submit(const BaseTime& time, const Told& told);
  // Changes the nodes that the base may get while it waits ("n[1-2]"; empty: all that the job may run on).
  void steer(JobId base, const BaseShape& shape, const std::string& nodes);
  // For the end of the job: nothing is submitted any more. `told` still follows where a submission is under way.
  void stop();
  bool asking() const { return asking_; }  // a call to slurmctld is under way

 private:
  struct Answer {
    JobId id = 0;
    BaseJob job;
    std::string why;
    bool away = false, hopeless = false;
  };
  void attempt(const Told& told);
  void look(const Answer& lost, const Told& told, int question);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  const std::vector<std::string> environment_;
  BaseTime time_;
  int attempts_ = 0;
  bool asking_ = false, stopped_ = false;
  wire::Watch again_;
};

}  // namespace espalier::launcher
