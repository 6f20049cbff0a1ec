// The first base of a movable job: the one with the GPUs that its user asked for. It waits in Slurm's queue. When it is
// granted training starts on it. Where training is on a smaller base by then, this one has `arrived`, and training
// moves to it as to a second base. Runs on the loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/base/base_jobs.hpp"
#include "launcher/base/current_base.hpp"
#include "launcher/base/first_submission.hpp"

namespace espalier::launcher {

class FirstBase {
 public:
  struct Callbacks {
    std::function<void(const std::string& why)> refused;  // it will never run, and there is no smaller one
    std::function<void()> changed;                        // what waits() says has changed
  };
  // All outlive this object.
  FirstBase(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
            const CurrentBase& current, BaseJobs& jobs, Callbacks callbacks);

  void submit();
  // The base `id` was granted and given back before this launcher saw it run. Another one is submitted in its place,
  // and waits behind others. False: for the fourth time, none is. A base whose keepers end by themselves would cost
  // others their GPUs for nothing.
  bool submit_anew(JobId id);
  // An earlier launcher has submitted it. It keeps its place in the queue.
  void take_over(JobId id, const BaseShape& shape);
  // The base, while it waits, is to get only these nodes ("n[1-2]"; empty: all that it may have). It keeps its id and
  // its place in the queue. Says so in the output, or why it stays as it is.
  void steer(JobId base, const std::string& nodes);
  // It has been granted, and waits no longer. Where training is on another base it has arrived.
  void granted();
  void give_back_waiting();  // nothing where it does not wait
  // Training stays where it is, and the base that has arrived is given back. Nothing where none has.
  void give_back_arrived(const std::string& why);
  void move_failed();  // a move to the base that has arrived: it is given back after three
  void moved() { arrived_ = 0; }
  // It will never run. Training that is on a smaller base goes on there.
  void refused(const std::string& why) const;
  // A base has ended. True: it was this one, and it waited.
  bool ended(JobId id);
  void stop();  // for the end of the job: nothing is submitted any more

  JobId waits() const { return waits_; }      // 0: it does not, or is not submitted yet
  JobId arrived() const { return arrived_; }  // until training is on it; 0: it has not
  std::vector<NodeView> arrived_nodes() const;
  bool asking() const { return submission_.asking(); }  // a call to slurmctld is under way

 private:
  const JobContext& context_;
  const CurrentBase& current_;
  BaseJobs& jobs_;
  Callbacks callbacks_;
  FirstSubmission submission_;
  JobId waits_ = 0, arrived_ = 0;
  int tries_ = 0;  // moves to it that have failed
  int anew_ = 0;   // since one was granted
  bool stopped_ = false;
};

}  // namespace espalier::launcher
