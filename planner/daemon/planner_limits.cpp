// What the planner takes of one user's launchers.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/report_check.hpp"

namespace espalier {

// Slurm may list very many jobs, so its list is read only for a job that is larger than the site's
// limit, or claims to be.
int Planner::most_gpus(const LiveJob& live) const {
  return std::max(live.confirmed_gpus, std::min(settings_.max_gpus, cluster_gpus_));
}

void Planner::confirm_gpus(LiveJob& live) const {
  if (!last_) return;
  std::size_t held = 0;
  for (const auto& [id, job] : last_->jobs) {
    const bool of_job = anchor_of_comment(job.comment) == live.job.id || submitted_of_base(job.comment) == live.job.id;
    if (id != live.job.id && (job.uid != live.job.uid || !of_job)) continue;
    for (const Holding& one : job.holdings) held += one.gpus.size();
  }
  live.confirmed_gpus = std::max(live.confirmed_gpus, static_cast<int>(held));
}

template <class Report>
void Planner::check_gpus(LiveJob& live, const Report& report) const {
  try {
    check_size(report, most_gpus(live));
  } catch (const Error&) {
    confirm_gpus(live);
    check_size(report, most_gpus(live));
  }
}

template void Planner::check_gpus(LiveJob&, const ElasticJob&) const;
template void Planner::check_gpus(LiveJob&, const wire::Outcome&) const;

bool Planner::may_write(const LiveJob& live, double now) {
  store_.take_written();  // others wrote it
  return writes_.left(live.job.uid, elastic_jobs_of(live.job.uid), now);
}

void Planner::charge_writes(const LiveJob& live, double now) {
  writes_.charge(live.job.uid, elastic_jobs_of(live.job.uid), now, static_cast<double>(store_.take_written()));
}

void Planner::tell_excess(LiveJob& live, const char* what) {
  if (!std::exchange(live.excess_told, true))
    log_.line(live.job.uid, spdlog::level::warn,
              "job {}: the launchers of uid {} report more {} than can be; the excess is not recorded", live.job.id,
              live.job.uid, what);
}

}  // namespace espalier
