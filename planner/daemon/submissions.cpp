#include "planner/daemon/submissions.hpp"

#include <algorithm>
#include <vector>

namespace espalier {

namespace {

// The store's first row is no submission but the moment from which on they are known. Without it a quiet cluster's only
// submission would look like the first of many after a restart.
constexpr int kKnownSince = 0;  // GPUs

}  // namespace

Submissions::Submissions(Store& store) : store_(store) {
  const auto kept = store.submissions();
  if (kept.empty()) return;
  watching_ = true;
  marked_ = kept.front().gpus == kKnownSince;
  const bool all = kept.size() <= Arrivals::kMost;  // else the store has let older ones go
  arrivals_ = Arrivals(all ? kept.front().time : kept[1].time);
  for (const Submission& one : kept)
    if (one.gpus != kKnownSince) arrivals_.add(one);
  latest_ = kept.back().time;
}

void Submissions::look(const SlurmSnapshot& slurm, const std::string& partition) {
  // Of jobs from before the first look only those that have not ended are in sight. To count them would say that jobs
  // have arrived seldom.
  if (!watching_) arrivals_ = Arrivals(slurm.time), latest_ = slurm.time;
  watching_ = true;
  std::vector<Submission> news;
  if (!marked_) news.push_back({arrivals_.since(), kKnownSince});
  std::set<JobId> now;
  for (const auto& [id, job] : slurm.jobs) {
    now.insert(id);
    const bool extension = job.partition == partition && anchor_of_comment(job.comment) != 0;
    if (seen_.contains(id) || extension || job.wanted_gpus <= 0 || job.submitted < latest_) continue;
    // Slurm's times are whole seconds: a job of the same second as the latest may be an old one after a restart.
    if (seen_.empty() && job.submitted == latest_) continue;
    news.push_back({job.submitted, job.wanted_gpus});
  }
  seen_ = std::move(now);
  if (news.empty()) return;
  std::sort(news.begin(), news.end(), [](const Submission& a, const Submission& b) { return a.time < b.time; });
  for (const Submission& one : news)
    if (one.gpus != kKnownSince) arrivals_.add(one);
  latest_ = std::max(latest_, news.back().time);
  store_.add(news, slurm.time - Arrivals::kMostSeconds, Arrivals::kMost);
  marked_ = true;
}

}  // namespace espalier
