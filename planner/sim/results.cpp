#include "planner/sim/results.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/core/error.hpp"

namespace espalier::sim {

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto at = static_cast<std::size_t>(std::max(1.0, rank)) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

std::vector<double> delays(const PolicyRun& run, const PolicyRun& reference) {
  ESPALIER_INVARIANT(run.jobs.size() == reference.jobs.size());
  std::vector<double> result;
  for (std::size_t i = 0; i < run.jobs.size(); ++i) result.push_back(run.jobs[i].end - reference.jobs[i].end);
  return result;
}

std::vector<double> slowdowns(const PolicyRun& run, const PolicyRun& reference) {
  ESPALIER_INVARIANT(run.jobs.size() == reference.jobs.size());
  std::vector<double> result;
  for (std::size_t i = 0; i < run.jobs.size(); ++i) result.push_back(run.jobs[i].jct() / reference.jobs[i].jct());
  return result;
}

namespace {

void compare_shares(Summary& summary, const PolicyRun& run, const PolicyRun& reference) {
  double elastic_there = 0, others_there = 0, others = 0;
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    const JobOutcome &here = run.jobs[i], &there = reference.jobs[i];
    if (here.elastic) {
      ++summary.elastic_jobs;
      summary.elastic_jct += here.jct();
      elastic_there += there.jct();
    } else {
      others += 1;
      summary.others_queueing += here.start - here.submit;
      others_there += there.start - there.submit;
    }
  }
  if (summary.elastic_jobs > 0) {
    summary.elastic_jct_ratio = elastic_there / summary.elastic_jct;
    summary.elastic_jct /= static_cast<double>(summary.elastic_jobs);
  }
  if (others <= 0) return;
  summary.others_queueing_ratio = others_there > 0              ? summary.others_queueing / others_there
                                  : summary.others_queueing > 0 ? std::numeric_limits<double>::infinity()
                                                                : 1;
  summary.others_queueing /= others;
}

}  // namespace

Summary summarize(const PolicyRun& run, const PolicyRun& reference) {
  Summary summary;
  summary.policy = run.policy;
  summary.jobs = run.jobs.size();
  summary.redeployments = run.redeployments;
  double weight = 0, first = run.jobs.front().submit, last = 0, there = 0;
  std::vector<double> jcts, waits;
  for (const JobOutcome& job : run.jobs) {
    jcts.push_back(job.jct());
    waits.push_back(job.start - job.submit);
    summary.avg_jct += job.jct();
    summary.weighted_jct += job.gpus * job.jct();
    summary.avg_queueing += waits.back();
    summary.gpu_hours += job.gpu_seconds / 3600;
    summary.lost_gpu_hours += job.lost_gpu_seconds / 3600;
    summary.worst_rho = std::max(summary.worst_rho, job.rho());
    if (job.deadline > 0) {
      ++summary.deadlines;
      if (job.end <= job.deadline) summary.deadlines_kept += 1;
    }
    weight += job.gpus;
    first = std::min(first, job.submit);
    last = std::max(last, job.end);
  }
  const auto count = static_cast<double>(run.jobs.size());
  if (summary.deadlines > 0) summary.deadlines_kept /= static_cast<double>(summary.deadlines);
  for (const JobOutcome& job : reference.jobs) there += job.jct();
  summary.avg_jct_ratio = there / summary.avg_jct;
  summary.avg_jct /= count;
  summary.weighted_jct /= weight;
  summary.avg_queueing /= count;
  summary.makespan = last - first;
  summary.utilization = summary.gpu_hours * 3600 / (run.gpus * summary.makespan);
  summary.p50_jct = percentile(jcts, 0.5);
  summary.p99_jct = percentile(jcts, 0.99);
  summary.p99_queueing = percentile(waits, 0.99);
  compare_shares(summary, run, reference);
  for (const double slowdown : slowdowns(run, reference))
    summary.worst_slowdown = std::max(summary.worst_slowdown, slowdown);
  for (const double delay : delays(run, reference)) {
    summary.worst_delay = std::max(summary.worst_delay, delay);
    summary.delayed_share += delay > 1 ? 1 / count : 0;
  }
  return summary;
}

}  // namespace espalier::sim
