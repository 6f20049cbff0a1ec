// The submission of a base beside the one that a movable job has: a second one, or a smaller one while the first waits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/base/base_time.hpp"
#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/slurm/job_context.hpp"

namespace espalier::launcher {

class SecondSubmission {
 public:
  struct Answer {
    JobId id = 0;  // 0: Slurm has refused it, and `why` says so
    BaseShape shape;
    BaseTime time;  // with the time limits as they are now
    std::string why;
  };
  using Told = std::function<void(const Answer&)>;  // once, on the loop
  SecondSubmission(BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment)
      : slurm_(slurm), context_(context), environment_(std::move(environment)) {}

  // `beside`: the base that training is on, whose time limit is read anew; 0: there is none yet. `only`: its nodes.
  // Where Slurm cannot start it at once it is submitted to wait in the queue. `wanted`: false when it is no longer:
  // `told` follows only if it has been submitted nevertheless.
  void submit(JobId beside, const BaseTime& time, const BaseShape& shape, std::vector<std::string> only,
              std::function<bool()> wanted, Told told);
  bool asking() const { return asking_ > 0; }  // a call to slurmctld is under way

 private:
  struct Request {
    JobId beside = 0;
    BaseTime time;
    BaseShape shape;
    std::vector<std::string> only;
    bool immediate = true;
  };
  void submit(const Request& request, const std::function<bool()>& wanted, const Told& told);

  BlockingThread& slurm_;
  const JobContext& context_;
  const std::vector<std::string> environment_;
  int asking_ = 0;
};

}  // namespace espalier::launcher
