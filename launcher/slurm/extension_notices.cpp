#include "launcher/slurm/extension_notices.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kWatch{5000};
// The wait for Slurm's word on the other extensions, after the first notice.
constexpr wire::Loop::Milliseconds kGather{500};
}  // namespace

ExtensionNotices::ExtensionNotices(wire::Loop& loop, BlockingThread& slurm, const ExtensionJobs& jobs,
                                   std::function<void(JobId)> told, Ask ask)
    : loop_(loop), slurm_(slurm), jobs_(jobs), told_(std::move(told)), ask_(std::move(ask)) {
  watch_ = loop_.every(kWatch, [this] { watch(); });
}

// Asks Slurm whether running extensions are preempted. A preemption's SIGTERM goes to a job's steps and not to its
// batch script, so that the keeper may hear nothing. The steps' processes report the signal, but there may be none yet,
// and their report may be lost.
void ExtensionNotices::watch() {
  std::erase_if(notices_, [this](const auto& entry) { return !jobs_.all().contains(entry.first); });
  std::set<JobId> unheard, under_way;
  for (const auto& [id, job] : jobs_.all())
    if (job.running && !job.leaving && !heard(id)) {
      unheard.insert(id);
      if (notices_[id].asked) under_way.insert(id);
    }
  const auto next = order_.next(unheard, under_way);
  if (next.empty()) return;
  const std::set<JobId> ids(next.begin(), next.end());
  for (const JobId id : ids) notices_[id].asked = true;
  slurm_.post([this, ids, ask = ask_]() -> std::function<void()> {
    return [this, ids, taken = preempted(ask, ids)] {
      for (const JobId id : ids)
        if (const auto at = notices_.find(id); at != notices_.end()) at->second.asked = false;
      for (const JobId id : taken) notice(id);
    };
  });
}

// None where slurmctld is away: nothing is preempted without it.
std::set<JobId> ExtensionNotices::preempted(const Ask& ask, const std::set<JobId>& ids) {
  std::set<JobId> taken;
  try {
    for (const auto& [id, job] : ask(ids))
      if (job.preempted) taken.insert(id);
  } catch (const Error&) {
  }
  return taken;
}

bool ExtensionNotices::heard(JobId id) const {
  const auto at = notices_.find(id);
  return at != notices_.end() && at->second.heard;
}

void ExtensionNotices::hear(JobId id) {
  notices_[id].heard = true;
  notices_[id].heard_at = wire::steady_now();
}

void ExtensionNotices::notice(JobId id) {
  if (jobs_.held(id) == nullptr || heard(id)) return;
  hear(id);
  std::set<JobId> others;
  for (const auto& [other, job] : jobs_.all())
    if (job.running && !job.leaving && !heard(other)) others.insert(other);
  if (others.empty()) return tell();
  if (gather_) return;  // Slurm is being asked
  gather_ = loop_.after(kGather, [this] { tell(); });
  slurm_.post_first([this, others, question = ++*question_, newest = question_, ask = ask_]() -> std::function<void()> {
    if (*newest != question) return nullptr;
    return [this, taken = preempted(ask, others), question] {
      if (question != *question_) return;
      for (const JobId other : taken)
        if (jobs_.held(other) != nullptr && !heard(other)) hear(other);
      tell();
    };
  });
}

void ExtensionNotices::tell() {
  gather_.reset();
  ++*question_;
  std::vector<JobId> fresh;
  for (auto& [id, notice] : notices_)
    if (notice.heard && jobs_.held(id) != nullptr && !std::exchange(notice.told, true)) fresh.push_back(id);
  for (const JobId id : fresh) told_(id);
}

std::set<JobId> ExtensionNotices::noticed() const {
  std::set<JobId> ids;
  for (const auto& [id, notice] : notices_)
    if (notice.told && jobs_.held(id) != nullptr) ids.insert(id);
  return ids;
}

double ExtensionNotices::since_notice(const std::set<JobId>& ids) const {
  double longest = 0;
  for (const auto& [id, notice] : notices_)
    if (ids.contains(id) && notice.told && jobs_.all().contains(id))
      longest = std::max(longest, std::chrono::duration<double>(wire::steady_now() - notice.heard_at).count());
  return longest;
}

}  // namespace espalier::launcher
