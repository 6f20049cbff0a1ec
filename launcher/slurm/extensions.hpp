// The extensions of one job: submitting, watching, giving back. The only owner of extension jobs besides their keepers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/server.hpp"

namespace espalier::launcher {

class Extensions {
 public:
  struct Callbacks {
    std::function<void()> granted;                       // every requested extension runs and its keeper is connected
    std::function<void(const std::string& why)> failed;  // of those being acquired: one was refused, lost or late
    std::function<void(JobId)> noticed;                  // Slurm wants this one back
    std::function<void(const Holding&)> lost;            // in use, and its keeper is gone
    std::function<void(JobId)> released;                 // Slurm confirmed its end
    // Its keeper is there, so that steps can be started in it; and: it is being given back.
    std::function<void(JobId, const ExtensionRequest&)> came;
    std::function<void(JobId)> leaves;
  };
  // `environment`: what a keeper needs to find the launcher.
  Extensions(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
             Callbacks callbacks);

  void acquire(const std::vector<ExtensionRequest>& requests);
  void cancel_acquired();  // gives back what the last acquire() got, without callbacks
  void keep_acquired();    // they belong to the committed generation now
  // At once, or in a moment: its workers end in good order with those elsewhere, unless they take longer. From now on
  // it is none of the job's holdings.
  void release(JobId id, wire::Loop::Milliseconds in = {});
  void release_now();  // those that were given a moment
  void release_all();  // for the end of the job
  bool empty() const { return jobs_.empty() && submitting_ == 0; }

  void keep(const wire::Keep& what);  // to all keepers
  // Of those in use: the keeper was not heard for a while, though not yet for so long that it is lost.
  bool falters(JobId id) const;

  void notice(JobId id);  // somebody heard that Slurm takes it back; nothing when that is known

  // A keeper of an extension introduced itself. Throws Error when nobody waits for it.
  void adopt(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello);

  std::vector<Holding> holdings(bool with_acquired) const;
  std::set<JobId> noticed() const;  // in use or acquired
  // How long ago the first of these was noticed, seconds.
  double since_notice(const std::set<JobId>& ids) const;
  bool acquired(JobId id) const;  // by the current proposal
  bool known(JobId id) const { return jobs_.contains(id); }

 private:
  struct Job {
    ExtensionRequest request;
    Holding holding;  // gpus are filled in when it runs
    bool acquiring = true, running = false, noticed = false, leaving = false, lingers = false;
    int missed = 0;      // heartbeats of its keeper
    bool asked = false;  // a question about it is on its way to Slurm
    std::chrono::steady_clock::time_point noticed_at{};
    std::chrono::steady_clock::time_point looked_at{};                // at the GPUs of its node, while it is pending
    std::optional<std::chrono::steady_clock::time_point> lacks_gpus;  // since when they do not suffice
    wire::ConnectionPtr keeper;
    wire::Watch check;
  };
  void submit(const ExtensionRequest& request, bool immediate);
  void poll();
  void watch();
  // Of a pending extension: nullopt when its node is not to be looked at yet, or cannot be.
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
  int submitting_ = 0;
  unsigned attempt_ = 0;  // of acquire(); results of an older one are given back
  bool acquiring_ = false;
  wire::Watch poll_, deadline_, heartbeat_, watch_;
};

}  // namespace espalier::launcher
