// `espalier plan`: reads the two files, searches and prints.
#include "planner/cli/commands.hpp"
#include "planner/cli/plan_report.hpp"
#include "planner/core/topology/from_view.hpp"

namespace espalier::cli {
namespace {

PlanReport study(const Arguments& arguments) {
  PlanReport report;
  report.job = read_plan_job(arguments.job_file);
  if (!arguments.schedule.empty()) {
    report.job.schedule = arguments.schedule;
    report.job.chunks = 0;
    report.job.lists.clear();
    ElasticJob checked;
    set_schedule(checked, arguments.schedule, 0, "--schedule: ");
  }
  const PlanCluster cluster = read_plan_cluster(arguments.cluster);
  report.cluster = cluster.name;
  SiteView seen = site_from_view(cluster.view, cluster.reports, cluster.hardware);
  report.site = std::move(seen.site);
  report.notes = std::move(seen.notes);
  report.notes.insert(report.notes.end(), cluster.notes.begin(), cluster.notes.end());
  const auto order = plan_gpus(report.job, report.site);
  const auto present = present_plan(report.job, report.site, order);
  report.coefficients = plan_coefficients(report.job, report.site, present);
  report.notes.insert(report.notes.end(), report.coefficients.notes.begin(), report.coefficients.notes.end());
  report.plans = plan_counts(report.job, report.site, report.coefficients, order, present, arguments.gpu_counts);
  return report;
}

}  // namespace

std::string plan(const Arguments& arguments) {
  expect_words(arguments, 1);
  if (!arguments.profiles.empty()) return profiled_plan(arguments);
  if (arguments.job_file.empty()) throw UsageError("plan: needs --job=FILE");
  if (arguments.cluster.empty()) throw UsageError("plan: needs --cluster=FILE");
  if (arguments.gpu_counts.empty()) throw UsageError("plan: needs --gpus=N[,N...]");
  const PlanReport report = study(arguments);
  bool any = false;
  for (const PlannedCount& planned : report.plans) any = any || planned.plan;
  const PlannedCount& most = report.plans.back();
  if (!any) throw Error("--gpus: " + std::to_string(most.gpus) + ": " + most.why_not);
  // A path may have any bytes.
  if (arguments.json) return plan_json(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string text;
  if (arguments.one_line) {
    for (const PlannedCount& planned : report.plans) text += format(plan_record(report, planned), true);
    return text;
  }
  text = plan_table(report);
  for (const PlannedCount& planned : report.plans)
    if (planned.plan) text += "\n" + plan_drawing(planned);
  return text + "\n" + drawing_legend(report.site.hardware.memory_share);
}

}  // namespace espalier::cli
