// The results of a simulation as JSON. The same inputs give the same bytes, so nothing depends on
// the machine unless latencies are asked for.
#include <algorithm>
#include <cmath>

#include "planner/cli/simulate_study.hpp"

namespace espalier::cli {
namespace {

// Rounds to a thousandth of a second, or a millionth of a ratio, so that the text does not depend
// on the last bits.
double seconds(double value) { return std::round(value * 1e3) / 1e3; }
double ratio(double value) { return std::round(value * 1e6) / 1e6; }

nlohmann::json policy_json(const sim::Summary& one) {
  return {{"policy", one.policy},
          {"jobs", one.jobs},
          {"avg_jct_s", seconds(one.avg_jct)},
          {"weighted_jct_s", seconds(one.weighted_jct)},
          {"p50_jct_s", seconds(one.p50_jct)},
          {"p99_jct_s", seconds(one.p99_jct)},
          {"makespan_s", seconds(one.makespan)},
          {"utilization", ratio(one.utilization)},
          {"avg_queueing_s", seconds(one.avg_queueing)},
          {"p99_queueing_s", seconds(one.p99_queueing)},
          {"redeployments", one.redeployments},
          {"lost_gpu_hours", ratio(one.lost_gpu_hours)},
          {"gpu_hours", ratio(one.gpu_hours)},
          {"avg_jct_speedup_over_fifo", ratio(one.avg_jct_ratio)},
          {"elastic_jobs", one.elastic_jobs},
          {"elastic_jct_s", seconds(one.elastic_jct)},
          {"elastic_jct_speedup_over_fifo", ratio(one.elastic_jct_ratio)},
          {"others_queueing_s", seconds(one.others_queueing)},
          {"others_queueing_over_fifo", ratio(one.others_queueing_ratio)},
          {"worst_slowdown", ratio(one.worst_slowdown)},
          {"worst_delay_s", seconds(one.worst_delay)},
          {"worst_rho", ratio(one.worst_rho)},
          {"delayed_share", ratio(one.delayed_share)}};
}

}  // namespace

nlohmann::json study_json(const Study& study) {
  nlohmann::json json{{"cluster", study.cluster},
                      {"gpus", study.gpus},
                      {"trace", study.arguments.trace},
                      {"seed", study.arguments.workload.seed},
                      {"queue", sim::to_string(study.arguments.queue)},
                      {"jobs", study.workload.jobs.size()},
                      {"jobs_in_window", study.workload.in_window},
                      {"window_from", study.window_from},
                      {"window_to", study.window_to},
                      {"gpu_hours", ratio(study.workload.gpu_seconds / 3600)},
                      {"offered_load", ratio(study.offered_load())},
                      {"rows_left_out", study.trace.left_out},
                      {"notes", study.notes},
                      {"damaged_rows", nlohmann::json::array()},
                      {"policies", nlohmann::json::array()}};
  for (const sim::DamagedRow& row : study.trace.damaged)
    json["damaged_rows"].push_back({{"line", row.line}, {"why", row.why}});
  const bool movable = study.arguments.workload.movable_share > 0;
  if (movable)
    json["movable_jobs"] = std::count_if(study.workload.jobs.begin(), study.workload.jobs.end(),
                                         [](const sim::SimulatedJob& job) { return job.movable; });
  if (study.bound)
    json["bound"] = {{"avg_jct_s", seconds(study.bound->seconds())},
                     {"one_machine_s", seconds(study.bound->one_machine)},
                     {"alone_s", seconds(study.bound->alone)}};
  if (study.arguments.queue == sim::QueueOrder::slurm)
    json["slurm"] = {{"priority_weight_age", study.slurm.weight_age},
                     {"priority_weight_job_size", study.slurm.weight_job_size},
                     {"priority_max_age_s", study.slurm.max_age_seconds},
                     {"priority_favor_small", study.slurm.favor_small},
                     {"bf_interval_s", study.slurm.backfill_interval_seconds},
                     {"bf_max_job_test", study.slurm.most_backfill_jobs}};
  for (std::size_t i = 0; i < study.summaries.size(); ++i) {
    nlohmann::json one = policy_json(study.summaries[i]);
    if (study.bound) one["avg_jct_over_bound"] = ratio(study.summaries[i].avg_jct / study.bound->seconds());
    if (study.summaries[i].deadlines > 0) one["deadlines_kept"] = ratio(study.summaries[i].deadlines_kept);
    const sim::PolicyRun& run = study.runs[i];
    one["decisions"] = run.decisions;
    one["order"] = run.order;
    if (study.arguments.latency)
      for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("p90", 0.9), std::pair("p99", 0.99)})
        one["decision_latency_s"][name] = sim::percentile(run.latencies, share);
    for (const sim::JobOutcome& job : run.jobs)
      one["job_list"].push_back({{"id", job.id},
                                 {"trace_id", study.workload.jobs[job.id - 1].trace_id},
                                 {"model", study.kinds[study.workload.jobs[job.id - 1].kind].model},
                                 {"submit_s", seconds(job.submit)},
                                 {"start_s", seconds(job.start)},
                                 {"end_s", seconds(job.end)},
                                 {"gpus", job.gpus},
                                 {"time_limit_s", seconds(study.workload.jobs[job.id - 1].time_limit)},
                                 {"elastic", job.elastic},
                                 {"most_gpus", job.most_gpus},
                                 {"redeployments", job.redeployments}});
    if (movable)
      for (std::size_t j = 0; j < run.jobs.size(); ++j) {
        auto& listed = one["job_list"][j];
        listed["movable"] = study.workload.jobs[j].movable;
        listed["started_smaller"] = run.jobs[j].started_smaller;
        listed["moves"] = run.jobs[j].moves;
      }
    json["policies"].push_back(std::move(one));
  }
  return json;
}

}  // namespace espalier::cli
