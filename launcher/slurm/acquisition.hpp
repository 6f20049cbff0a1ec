// Gets a job the extensions of one proposal: submits them, and asks Slurm until all of them run and their keepers are
// connected, or one cannot be had. Callbacks run on the loop.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/extension_jobs.hpp"
#include "launcher/slurm/grants.hpp"
#include "launcher/slurm/job_context.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class Acquisition {
 public:
  struct Callbacks {
    std::function<void()> granted;                       // every requested extension runs and its keeper is connected
    std::function<void(const std::string& why)> failed;  // one was refused, lost or late
  };
  using Ask = std::function<std::optional<SlurmJob>(JobId)>;
  // `environment`: the variables that a keeper needs to find the launcher. `jobs` gets the extensions that Slurm has
  // accepted. All references outlive this object. `ask` runs on `slurm`.
  Acquisition(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
              ExtensionJobs& jobs, Callbacks callbacks, Ask ask = load_job);

  // One of `grants` is used for each. `granted` or `failed` follows, unless cancel() comes first.
  void begin(const std::vector<ExtensionRequest>& requests, Grants& grants);
  // An extension that is still being submitted is given back when the answer comes. The others are for the owner of
  // `jobs` to give back.
  void cancel();
  // An extension that was being acquired cannot be had. Nothing happens where none is being acquired.
  void fail(const std::string& why);
  void check_complete();  // the keeper of one of `jobs` has come
  bool submitting() const { return submitting_ > 0; }

 private:
  // An extension that Slurm has accepted and not started yet.
  struct Pending {
    bool asked = false;                                 // a question about it is on its way to Slurm
    bool configuring = false;                           // it has its GPUs, and its processes cannot start yet
    std::chrono::steady_clock::time_point looked_at{};  // when its node's idle GPUs were last counted
    std::optional<std::chrono::steady_clock::time_point> lacks_gpus;  // since when its node has had too few idle GPUs
  };
  void submit(const ExtensionRequest& request, const std::string& grant, bool immediate);
  void poll();
  std::string why_late() const;
  void answered(JobId id, const std::optional<SlurmJob>& seen, std::optional<int> idle);
  // `idle`: the idle GPUs of a pending extension's node; nullopt: they were not counted now.
  void weigh_chances(JobId id, const ExtensionRequest& request, std::optional<int> idle);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const JobContext& context_;
  const std::vector<std::string> environment_;
  ExtensionJobs& jobs_;
  Callbacks callbacks_;
  const Ask ask_;
  std::map<JobId, Pending> pending_;
  int submitting_ = 0;
  unsigned attempt_ = 0;  // number of begin() calls; extensions of an older call are given back
  bool acquiring_ = false;
  // The attempt whose extensions may be submitted; 0: none. The thread for Slurm reads it, and may outlive this object.
  std::shared_ptr<std::atomic<unsigned>> wanted_ = std::make_shared<std::atomic<unsigned>>(0);
  wire::Watch poll_, deadline_;
};

}  // namespace espalier::launcher
