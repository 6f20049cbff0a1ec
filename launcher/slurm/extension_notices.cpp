// How the launcher learns that Slurm takes extensions back.
#include <utility>

#include "launcher/slurm/extensions.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
// The wait for Slurm's word on the other extensions, after the first notice.
constexpr wire::Loop::Milliseconds kGather{500};
}  // namespace

// Asks Slurm whether running extensions are preempted. A preemption's SIGTERM goes to a job's steps and not to its
// batch script, so that the keeper may hear nothing. The steps' processes report the signal, but there may be none yet,
// and their report may be lost.
void Extensions::watch() {
  for (auto& [id, job] : jobs_) {
    if (!job.running || job.heard || job.leaving || job.asked) continue;
    job.asked = true;
    slurm_.post([this, id = id]() -> std::function<void()> {
      bool preempted = false;
      try {
        const auto seen = load_job(id);
        preempted = seen && seen->preempted;
      } catch (const Error&) {
        // slurmctld is away. Nothing is preempted without it.
      }
      return [this, id, preempted] {
        if (const auto at = jobs_.find(id); at != jobs_.end()) at->second.asked = false;
        if (preempted) notice(id);
      };
    });
  }
}

void Extensions::notice(JobId id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end() || at->second.heard || at->second.leaving) return;
  at->second.heard = true;
  at->second.noticed_at = wire::steady_now();
  std::vector<JobId> others;
  for (const auto& [other, job] : jobs_)
    if (job.running && !job.heard && !job.leaving) others.push_back(other);
  if (others.empty()) return tell_notices();
  if (gather_) return;  // Slurm is being asked
  gather_ = loop_.after(kGather, [this] { tell_notices(); });
  slurm_.post_first([this, others, question = ++questions_]() -> std::function<void()> {
    std::vector<JobId> taken;
    try {
      for (const JobId other : others)
        if (const auto seen = load_job(other); seen && seen->preempted) taken.push_back(other);
    } catch (const Error&) {
      // slurmctld is away: the notices that are known must do
    }
    return [this, taken, question] {
      if (question != questions_ || !gather_) return;
      for (const JobId other : taken)
        if (const auto job = jobs_.find(other); job != jobs_.end() && !job->second.heard && !job->second.leaving) {
          job->second.heard = true;
          job->second.noticed_at = wire::steady_now();
        }
      tell_notices();
    };
  });
}

void Extensions::tell_notices() {
  gather_.reset();
  std::vector<JobId> fresh;
  for (auto& [id, job] : jobs_)
    if (job.heard && !job.leaving && !std::exchange(job.noticed, true)) fresh.push_back(id);
  for (const JobId id : fresh) callbacks_.noticed(id);
}

std::set<JobId> Extensions::noticed() const {
  std::set<JobId> ids;
  for (const auto& [id, job] : jobs_)
    if (job.noticed && !job.leaving) ids.insert(id);
  return ids;
}

double Extensions::since_notice(const std::set<JobId>& ids) const {
  double longest = 0;
  for (const auto& [id, job] : jobs_)
    if (ids.contains(id) && job.noticed)
      longest = std::max(longest, std::chrono::duration<double>(wire::steady_now() - job.noticed_at).count());
  return longest;
}

}  // namespace espalier::launcher
