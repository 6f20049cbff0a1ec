// The Slurm jobs that are extensions of one job: their keepers, what they hold, and giving them back. Which of them are
// being acquired, and for what, the owner knows (extensions.hpp). Callbacks run on the loop.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class ExtensionJobs {
 public:
  struct Job {
    ExtensionRequest request;
    Holding holding;  // its GPUs are known when it runs
    bool acquiring = true, running = false, leaving = false, lingers = false;
    int missed = 0;  // heartbeats that its keeper has missed
    wire::ConnectionPtr keeper;
    wire::Watch check;  // a wait for its keeper, or for its end
  };
  struct Callbacks {
    std::function<void(JobId)> noticed;  // its keeper heard that Slurm takes it back
    // Its keeper is gone, in use or not, and it is being given back. `acquiring`: it was being acquired.
    std::function<void(const Holding&, bool acquiring)> lost;
    // It cannot be used, and is being given back.
    std::function<void(const Holding&, const std::string& why)> refused;
    std::function<void(JobId)> released;                       // Slurm confirmed its end
    std::function<void(JobId, const ExtensionRequest&)> came;  // steps can be started in it
    std::function<void(JobId)> leaves;                         // it is being given back
  };
  // All references outlive this object.
  ExtensionJobs(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, Callbacks callbacks);

  // Slurm has accepted the request. The extension is being acquired until keep_acquired() or its release.
  void add(JobId id, const ExtensionRequest& request);
  void runs(JobId id, const Holding& holding);  // Slurm has started it
  void forget(JobId id);                        // it has ended, and nobody has used it
  // A keeper of an extension has said hello. Throws Error when no extension waits for it.
  void adopt(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello);
  // Extensions that an earlier launcher of the job has left and that run. One whose keeper does not come is lost.
  void take_over(const std::vector<SlurmJob>& left);
  void keep(const wire::Keep& what);  // sends it to all keepers

  // Gives an extension back that is being acquired and cannot be used. False: none such.
  bool refuse(JobId id, const std::string& why);
  void keep_acquired();  // none is being acquired any more
  void release_acquired();
  // As in Extensions.
  void release(JobId id, wire::Loop::Milliseconds in = {});
  void release_now();
  void release_all();
  void leave_to_next();

  const std::map<JobId, Job>& all() const { return jobs_; }
  // nullptr: there is none such, or it is being given back.
  const Job* held(JobId id) const;
  bool falters(JobId id) const;  // its keeper has missed some heartbeats
  std::vector<Holding> holdings(bool with_acquired) const;
  std::vector<Holding> granted() const;  // those that run of the ones that are being acquired

 private:
  void heartbeat();
  void lose_keeper(JobId id);
  void send_away(JobId id);
  void confirm_release(JobId id, int attempt);
  template <class Test>
  std::vector<JobId> ids(const Test& test) const;

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  Callbacks callbacks_;
  std::map<JobId, Job> jobs_;
  wire::Watch heartbeat_;
};

}  // namespace espalier::launcher
