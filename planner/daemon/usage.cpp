#include "planner/daemon/usage.hpp"

#include <algorithm>

#include "planner/daemon/store.hpp"

namespace espalier {
void TrainingUsage::count(double now) {
  if (until > 0 && now > until) (stands ? paused : trained) += gpus * (now - until);
  until = now;
}

void TrainingUsage::report(const ElasticJob& job, double now) {
  count(now);
  stands = job.phase == JobPhase::recovering;
  const bool runs = job.plan && job.phase != JobPhase::launching && job.phase != JobPhase::ending;
  gpus = runs ? job.plan->gpu_count() : 0;
}

void TrainingUsage::pause(double seconds, double now) {
  count(now);
  const double gpu_seconds = std::min(std::max(seconds, 0.0) * gpus, trained);
  trained -= gpu_seconds;
  paused += gpu_seconds;
}

void TrainingUsage::end(double now) {
  count(now);
  gpus = 0;
}

void TrainingUsage::restart(double started) {
  gpus = 0;
  until = started;
}

void Allocations::look(const SlurmSnapshot& slurm, const std::set<JobId>& elastic) {
  if (!read_) {
    for (const Store::Allocation& one : store_.open_allocations())
      written_[one.job] = {one.anchor, one.uid, one.gpus, one.started, 0, one.base};
    read_ = true;
  }
  for (const auto& [id, job] : slurm.jobs) {
    if (job.state == SlurmJobState::pending) {
      // Requeued. Slurm no longer tells when the run before ended.
      const auto known = written_.find(id);
      if (known == written_.end() || known->second.ended != 0) continue;
      Written& before = known->second;
      store_.save({id, before.anchor, before.uid, before.gpus, before.started, slurm.time, false, before.base});
      before.ended = slurm.time;
    }
    if (job.started <= 0 || job.state == SlurmJobState::pending) continue;
    const JobId submitted = submitted_of_base(job.comment);
    const bool base = submitted != 0;
    JobId anchor = base ? submitted : anchor_of_comment(job.comment);
    const auto known = written_.find(id);
    // Slurm gives a job that was cancelled while it waited a start, the moment of its end.
    if (known == written_.end() && job.state == SlurmJobState::ended && job.ended <= job.started) continue;
    if (anchor == 0) {
      if (known == written_.end() && !elastic.contains(id)) continue;
      anchor = id;
    } else if (known == written_.end()) {
      // Anybody may write a comment.
      if (!base && !partition_.empty() && job.partition != partition_) continue;
      const auto owner = slurm.jobs.find(anchor);
      if (owner == slurm.jobs.end() || owner->second.uid != job.uid) continue;
      if (!elastic.contains(anchor) && !written_.contains(anchor)) continue;
    }
    // An ended job's record names its GPUs no more. What was never seen to run is counted as it was asked for.
    const int held = gpus_of(job);
    Written now{anchor, job.uid, held, job.started, job.state == SlurmJobState::running ? 0 : job.ended, base};
    if (held == 0) now.gpus = known == written_.end() ? job.wanted_gpus : known->second.gpus;
    if (known != written_.end() && known->second.started == now.started)
      now.gpus = std::max(now.gpus, known->second.gpus);
    if (known != written_.end() && known->second == now) continue;
    if (known != written_.end() && known->second.started != now.started && known->second.ended == 0) {
      // Requeued between two looks, or another user's job under a number that Slurm has given again.
      const Written& before = known->second;
      store_.save({id, before.anchor, before.uid, before.gpus, before.started, now.started, false, before.base});
    }
    store_.save({id, now.anchor, now.uid, now.gpus, now.started, now.ended, true, base});
    written_[id] = now;
  }
  for (auto at = written_.begin(); at != written_.end();) {
    if (slurm.jobs.contains(at->first)) {
      ++at;
      continue;
    }
    const Written& gone = at->second;
    // It ended while this daemon did not run, and Slurm has forgotten when.
    if (gone.ended == 0)
      store_.save({at->first, gone.anchor, gone.uid, gone.gpus, gone.started, slurm.time, false, gone.base});
    at = written_.erase(at);
  }
}

}  // namespace espalier
