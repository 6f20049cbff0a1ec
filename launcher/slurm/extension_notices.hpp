// How the launcher learns that Slurm takes extensions back. Keepers, rank servers and workers may hear of it. Slurm is
// asked as well, because none of them may. Several notices of one preemption are told together. Runs on the loop.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "launcher/process/blocking_thread.hpp"
#include "launcher/slurm/asking_order.hpp"
#include "launcher/slurm/extension_jobs.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class ExtensionNotices {
 public:
  using Ask = std::function<std::map<JobId, SlurmJob>(const std::set<JobId>&)>;
  // `jobs`, `loop` and `slurm` outlive this object. `told` is called once for each of `jobs` that Slurm takes back.
  // `ask` runs on `slurm`.
  ExtensionNotices(wire::Loop& loop, BlockingThread& slurm, const ExtensionJobs& jobs, std::function<void(JobId)> told,
                   Ask ask = load_jobs);

  // Somebody heard that Slurm takes `id` back; may be called again. Slurm is then asked at once whether it takes others
  // too. `told` follows with the answer, or after half a second.
  void notice(JobId id);

  std::set<JobId> noticed() const;  // extensions, in use or acquired, that Slurm takes back
  // Seconds since the first notice for one of `ids`; 0: there was none.
  double since_notice(const std::set<JobId>& ids) const;

 private:
  struct Notice {
    bool asked = false;  // a question about the extension is on its way to Slurm
    bool heard = false, told = false;
    std::chrono::steady_clock::time_point heard_at{};
  };
  void watch();
  void hear(JobId id);
  bool heard(JobId id) const;
  void tell();
  static std::set<JobId> preempted(const Ask& ask, const std::set<JobId>& ids);

  wire::Loop& loop_;
  BlockingThread& slurm_;
  const ExtensionJobs& jobs_;
  std::function<void(JobId)> told_;
  const Ask ask_;
  std::map<JobId, Notice> notices_;
  AskingOrder order_{8, 4};  // four watches are 20 s; the sample configuration has a GraceTime of 30 s
  // The number of the newest question to Slurm, whether it takes others too, or of none once its answer would be too
  // late. An older one is not asked any more. The thread for Slurm reads it, and may outlive this object.
  std::shared_ptr<std::atomic<int>> question_ = std::make_shared<std::atomic<int>>(0);
  wire::Watch watch_, gather_;
};

}  // namespace espalier::launcher
