// The extensions of one job: submits them, watches them, gives them back. Only this object and their keepers own
// extension jobs. Callbacks run on the loop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/grants.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class Extensions {
 public:
  struct Callbacks {
    std::function<void()> granted;                       // every requested extension runs and its keeper is connected
    std::function<void(const std::string& why)> failed;  // an extension being acquired was refused, lost or late
    std::function<void(JobId)> noticed;                  // Slurm takes this extension back
    std::function<void(const Holding&)> lost;            // the keeper of this extension is gone, in use or not
    std::function<void(JobId)> released;                 // Slurm confirmed the end of this extension
    std::function<void(JobId, const ExtensionRequest&)> came;  // its keeper is connected: steps can be started in it
    std::function<void(JobId)> leaves;                         // it is being given back
  };
  // `environment`: the variables that a keeper needs to find the launcher.
  Extensions(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
             Callbacks callbacks);

  Grants& grants() { return grants_; }  // acquire() uses each for one extension
  // Submits the extensions; calls `granted` or `failed`.
  void acquire(const std::vector<ExtensionRequest>& requests);
  void cancel_acquired();  // gives back what the last acquire() got; calls neither `granted` nor `failed`
  void keep_acquired();    // the acquired extensions now belong to the committed generation
  // Gives an extension back after `in`. Within that time its workers can end in good order together with workers
  // elsewhere. From now on the extension is not one of the job's holdings.
  void release(JobId id, wire::Loop::Milliseconds in = {});
  void release_now();  // gives back the extensions whose `in` is not over
  void release_all();  // for the end of the job
  bool empty() const { return jobs_.empty() && submitting_ == 0; }

  void keep(const wire::Keep& what);  // sends it to all keepers
  // Whether an extension's keeper has missed some heartbeats. It may not have missed enough to count as lost.
  bool falters(JobId id) const;

  // A rank server or a worker heard that Slurm takes `id` back; may be called again. Slurm is then asked at once
  // whether it takes other extensions of the job too. callbacks.noticed follows with the answer, or after half a
  // second: several notices of one preemption are one change.
  void notice(JobId id);

  // A keeper of an extension has said hello. Throws Error when no extension waits for it.
  void adopt(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello);

  // Extensions that an earlier launcher of the job has left: they run, and their keepers will find this launcher by the
  // rank servers that callbacks.came starts. One whose keeper does not come is lost.
  void take_over(const std::vector<SlurmJob>& left);

  // `with_acquired`: also running extensions that the change under way has acquired.
  std::vector<Holding> holdings(bool with_acquired) const;
  std::vector<Holding> granted() const;  // running extensions of the current proposal
  std::set<JobId> noticed() const;       // extensions, in use or acquired, that Slurm takes back
  // Seconds since the first notice for one of `ids`; 0: there was none.
  double since_notice(const std::set<JobId>& ids) const;
  bool known(JobId id) const { return jobs_.contains(id); }

 private:
  struct Job {
    ExtensionRequest request;
    Holding holding;  // its GPUs are known when it runs
    bool acquiring = true, running = false, leaving = false, lingers = false;
    bool heard = false, noticed = false;  // Slurm takes it back; and: callbacks.noticed was called
    int missed = 0;                       // heartbeats that its keeper has missed
    bool asked = false;                   // a question about it is on its way to Slurm
    std::chrono::steady_clock::time_point noticed_at{};
    std::chrono::steady_clock::time_point looked_at{};  // while pending: when its node's idle GPUs were last counted
    std::optional<std::chrono::steady_clock::time_point> lacks_gpus;  // since when its node has had too few idle GPUs
    wire::ConnectionPtr keeper;
    wire::Watch check;
  };
  void tell_notices();
  void submit(const ExtensionRequest& request, const std::string& grant, bool immediate);
  void poll();
  void watch();
  // `idle`: the idle GPUs of a pending extension's node; nullopt: they were not counted now.
  void weigh_chances(JobId id, std::optional<int> idle);
  void check_complete();
  void fail(const std::string& why);
  void send_away(JobId id);
  void confirm_release(JobId id, int attempt);
  void heartbeat();
  void lose_keeper(JobId id);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  std::vector<std::string> environment_;
  Callbacks callbacks_;
  std::map<JobId, Job> jobs_;
  Grants grants_;
  int submitting_ = 0;
  unsigned attempt_ = 0;  // number of acquire() calls; extensions of an older call are given back
  bool acquiring_ = false;
  int questions_ = 0;  // to Slurm: whether it takes others too. An answer to an older one is too late
  wire::Watch poll_, deadline_, heartbeat_, watch_, gather_;
};

}  // namespace espalier::launcher
