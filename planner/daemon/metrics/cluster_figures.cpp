#include "planner/daemon/metrics/cluster_figures.hpp"

#include <algorithm>

namespace espalier {
namespace {

int gpus_in(const std::vector<Holding>& holdings) {
  std::size_t gpus = 0;
  for (const Holding& held : holdings) gpus += held.gpus.size();
  return static_cast<int>(gpus);
}

JobFigures figures_of(const ElasticJob& job) {
  JobFigures row;
  row.id = job.id;
  row.uid = job.uid;
  row.anchor_gpus = gpus_in(job.anchor);
  row.lent_gpus = gpus_in(job.extensions);
  row.generation = job.generation;
  row.step = job.step;
  row.step_seconds = job.step_seconds;
  const double tokens = static_cast<double>(job.model.global_batch) * job.model.sequence;
  if (job.step_seconds > 0) row.tokens_per_second = tokens / job.step_seconds;
  return row;
}

// Which jobs stay when there are more than `most`: those with most GPUs, the older ones first. The
// job ids are only numbers: a job that stays in keeps its series.
void keep_largest(ClusterFigures& figures, std::size_t most) {
  auto& rows = figures.rows;
  if (rows.size() > most) {
    figures.rows_left_out = rows.size() - most;
    const auto larger = [](const JobFigures& a, const JobFigures& b) {
      const int of_a = a.anchor_gpus + a.lent_gpus, of_b = b.anchor_gpus + b.lent_gpus;
      return of_a != of_b ? of_a > of_b : a.id < b.id;
    };
    std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(most), rows.end(), larger);
    rows.resize(most);
    std::sort(rows.begin(), rows.end(), [](const JobFigures& a, const JobFigures& b) { return a.id < b.id; });
  }
}

void count_gpus(const SlurmSnapshot& slurm, const Planner& planner, ClusterFigures& figures) {
  JobId known = 0;  // neighbouring GPUs mostly have the same owner
  std::size_t* part = nullptr;
  for (const NodeView& node : slurm.cluster.nodes)
    for (std::size_t index = 0; index < node.gpu_owner.size(); ++index) {
      const JobId owner = node.gpu_owner[index];
      if (owner == 0) {
        ++(node.usable && node.unhealthy.empty() ? figures.idle : figures.closed);
        continue;
      }
      const auto& freeing = node.freeing;
      if (!freeing.empty() && std::find(freeing.begin(), freeing.end(), static_cast<int>(index)) != freeing.end()) {
        ++figures.freeing;
        continue;
      }
      if (part == nullptr || owner != known) {
        known = owner;
        const auto job = slurm.jobs.find(owner);
        if (planner.jobs().contains(owner)) part = &figures.anchor;
        else if (job != slurm.jobs.end() && job->second.partition == planner.settings().partition &&
                 anchor_of_comment(job->second.comment) != 0)
          part = &figures.lent;
        else part = &figures.other;
      }
      ++*part;
    }
}

}  // namespace

ClusterFigures look(Planner& planner, std::size_t most_rows) {
  ClusterFigures figures;
  figures.slurm_answers = planner.last_snapshot() && !planner.slurm_trouble();
  figures.store_bytes = planner.store().used();
  for (const auto& [id, live] : planner.jobs()) {
    const auto phase = static_cast<std::size_t>(live.job.phase);
    if (phase < figures.jobs.size()) ++figures.jobs[phase];
    figures.connected += live.link != nullptr;
    figures.held += live.job.held;
    figures.unfit += live.job.unfit.size();
  }
  const auto& slurm = planner.last_snapshot();
  if (!slurm) return figures;
  figures.snapshot_time = slurm->time;
  figures.waiting_jobs = slurm->cluster.waiting.size();
  for (const WaitingJob& job : slurm->cluster.waiting)
    figures.wanted_gpus += static_cast<std::int64_t>(job.gpus) * job.tasks;
  count_gpus(*slurm, planner, figures);
  if (slurm->private_jobs || most_rows == 0) return figures;
  for (const auto& [id, live] : planner.jobs()) figures.rows.push_back(figures_of(live.job));
  keep_largest(figures, most_rows);
  return figures;
}

}  // namespace espalier
