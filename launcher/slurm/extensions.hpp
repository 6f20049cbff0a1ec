// The extensions of one job: submits them, watches them, gives them back. Only this object and their keepers own
// extension jobs. Callbacks run on the loop.
//
//   extensions.acquire(requests);    // callbacks.granted or failed follows
//   extensions.keep_acquired();      // the job trains on them
//   extensions.release(id);          // callbacks.released follows
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "launcher/slurm/acquisition.hpp"
#include "launcher/slurm/extension_jobs.hpp"
#include "launcher/slurm/extension_notices.hpp"

namespace espalier::launcher {

class Extensions {
 public:
  struct Callbacks {
    std::function<void()> granted;                       // every requested extension runs and its keeper is connected
    std::function<void(const std::string& why)> failed;  // an extension being acquired was refused, lost or late
    std::function<void(JobId)> noticed;                  // Slurm takes this extension back
    std::function<void(const Holding&)> lost;            // the keeper of this extension is gone, in use or not
    // This extension was being acquired and cannot be used. `failed` comes first where it is not granted yet.
    std::function<void(const Holding&, const std::string& why)> refused;
    std::function<void(JobId)> released;                       // Slurm confirmed the end of this extension
    std::function<void(JobId, const ExtensionRequest&)> came;  // its keeper is connected: steps can be started in it
    std::function<void(JobId)> leaves;                         // it is being given back
  };
  // `environment`: the variables that a keeper needs to find the launcher.
  Extensions(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
             Callbacks callbacks);

  Grants& grants() { return grants_; }  // acquire() uses each for one extension
  // Submits the extensions; calls `granted` or `failed`.
  void acquire(const std::vector<ExtensionRequest>& requests) { acquisition_.begin(requests, grants_); }
  // Gives an extension back that is being acquired and cannot be used. False: none such.
  bool refuse(JobId id, const std::string& why) { return jobs_.refuse(id, why); }
  void cancel_acquired();  // gives back what the last acquire() got; calls neither `granted` nor `failed`
  // The acquired extensions now belong to the committed generation.
  void keep_acquired() { jobs_.keep_acquired(); }
  // Gives an extension back after `in`. Within that time its workers can end in good order together with workers
  // elsewhere. From now on the extension is not one of the job's holdings.
  void release(JobId id, wire::Loop::Milliseconds in = {}) { jobs_.release(id, in); }
  void release_now() { jobs_.release_now(); }  // gives back the extensions whose `in` is not over
  void release_all();                          // for the end of the job
  // For the end of a launcher whose movable job Slurm has requeued: the extensions stay, with the state on them, and
  // are the next launcher's from now on. `released` does not follow.
  void leave_to_next();
  bool empty() const { return jobs_.all().empty() && !acquisition_.submitting(); }

  void keep(const wire::Keep& what) { jobs_.keep(what); }  // sends it to all keepers
  // Whether an extension's keeper has missed some heartbeats. It may not have missed enough to count as lost.
  bool falters(JobId id) const { return jobs_.falters(id); }

  // A rank server or a worker heard that Slurm takes `id` back; may be called again. Slurm is then asked at once
  // whether it takes other extensions of the job too. callbacks.noticed follows with the answer, or after half a
  // second: several notices of one preemption are one change.
  void notice(JobId id) { notices_.notice(id); }

  // A keeper of an extension has said hello. Throws Error when no extension waits for it.
  void adopt(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) { jobs_.adopt(connection, hello); }

  // Extensions that an earlier launcher of the job has left: they run, and their keepers will find this launcher by the
  // rank servers that callbacks.came starts. One whose keeper does not come is lost.
  void take_over(const std::vector<SlurmJob>& left) { jobs_.take_over(left); }

  // `with_acquired`: also running extensions that the change under way has acquired.
  std::vector<Holding> holdings(bool with_acquired) const { return jobs_.holdings(with_acquired); }
  std::vector<Holding> granted() const { return jobs_.granted(); }  // running extensions of the current proposal
  // Extensions, in use or acquired, that Slurm takes back.
  std::set<JobId> noticed() const { return notices_.noticed(); }
  // Seconds since the first notice for one of `ids`; 0: there was none.
  double since_notice(const std::set<JobId>& ids) const { return notices_.since_notice(ids); }
  bool known(JobId id) const { return jobs_.all().contains(id); }

 private:
  ExtensionJobs::Callbacks of_jobs();

  Callbacks callbacks_;
  Grants grants_;
  ExtensionJobs jobs_;
  ExtensionNotices notices_;
  Acquisition acquisition_;
};

}  // namespace espalier::launcher
