// The base that a movable job acquires beside the one that it has: a second one for training to move to, or a smaller
// one while the first waits. It must start within seconds, or it is withdrawn. Runs on the loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/base/base_jobs.hpp"
#include "launcher/base/current_base.hpp"
#include "launcher/base/first_base.hpp"
#include "launcher/base/second_submission.hpp"
#include "planner/core/decision.hpp"

namespace espalier::launcher {

class SecondBase {
 public:
  struct Callbacks {
    // There will be none: of a second base, or of a smaller one.
    std::function<void(const std::string&why)> second_failed, smaller_failed;
    std::function<void()> changed;  // what the job waits for has changed
  };
  // All outlive this object.
  SecondBase(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
             CurrentBase& current, FirstBase& first, BaseJobs& jobs, Callbacks callbacks);

  // Submits a base on these nodes.
  void acquire(const std::vector<ExtensionRequest>& nodes);
  // Makes the first base, which has arrived, the second one.
  void take_arrived();
  // The base that is acquired will not be: it is given back, and a callback follows. Nothing where none is acquired.
  void fail(const std::string& why);
  // Gives a base back that was acquired for a move; second_failed follows. Nothing where there is none.
  void withdraw(const std::string& why);
  // Gives the base back without a callback. One that has arrived stays for the next try; it is given back after three.
  void cancel();
  // Slurm has not started the base yet. `limited`: it waits for a limit of its user, account or QOS.
  void still_waits(JobId id, bool limited);
  // A base has been granted. True: it is the one that is acquired.
  bool granted(JobId id);
  // A base has ended. True: it was this one, and there is none now; lost() follows unless the job ends.
  bool ended(JobId id);
  void lost(const std::string& why);
  JobId take();  // training goes over to it: there is none now
  void stop();   // for the end of the job, which gives all bases back

  JobId id() const { return id_; }  // 0: there is none, or Slurm has not answered yet
  bool acquiring() const { return acquiring_; }
  bool asking() const { return submission_.asking(); }  // a call to slurmctld is under way
  std::vector<Holding> holdings() const;                // once it is granted
  std::vector<NodeView> nodes() const;                  // the same

 private:
  wire::Loop& loop_;
  const JobContext& context_;
  CurrentBase& current_;
  FirstBase& first_;
  BaseJobs& jobs_;
  Callbacks callbacks_;
  SecondSubmission submission_;
  JobId id_ = 0;
  bool acquiring_ = false;
  unsigned attempt_ = 0;  // number of acquire() calls; a base of an older call is given back
  wire::Watch deadline_;
};

}  // namespace espalier::launcher
