// `espalier plan --profiles`: the step time of one plan from the profiles of its stages.
#include <fmt/format.h>

#include <fstream>

#include "planner/cli/commands.hpp"
#include "planner/cli/plan_cluster_file.hpp"
#include "planner/cli/record.hpp"
#include "planner/core/model/profiled_step.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/stage_profile_json.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/core/topology/from_view.hpp"

namespace espalier::cli {
namespace {

StageProfile read_profile(const std::string& path) {
  std::ifstream in = open_input(path);
  if (!in) throw Error("--profiles: " + path + ": cannot be read");
  try {
    return stage_profile_from(parse_json(in));
  } catch (const std::exception& problem) {
    throw Error("--profiles: " + path + ": " + problem.what());
  }
}

Json stage_json(const ProfiledStage& stage) {
  return {{"forward_ms", stage.forward},
          {"backward_ms", stage.backward},
          {"weight_gradient_ms", stage.weight_gradient},
          {"tensor_sums_ms", stage.sums},
          {"send_ms", stage.send},
          {"gradients_ms", stage.gradients},
          {"exposed_gradients_ms", stage.sync},
          {"optimizer_ms", stage.optimizer},
          {"peak_bytes", stage.peak_bytes}};
}

Json step_json(const Plan& plan, const ProfiledStep& step, double device_seconds) {
  Json json{{"plan", plan},
            {"step_ms", step.step_ms},
            {"tied_ms", step.tied_ms},
            {"device_seconds", device_seconds},
            {"stages", Json::array()}};
  for (const ProfiledStage& stage : step.stages) json["stages"].push_back(stage_json(stage));
  return json;
}

Record stage_record(std::size_t number, const ProfiledStage& stage) {
  const auto ms = [](double value) { return fmt::format("{:.3f}", value); };
  return {{{"Stage", std::to_string(number)},
           {"ForwardMs", ms(stage.forward)},
           {"BackwardMs", ms(stage.backward)},
           {"WeightGradientMs", ms(stage.weight_gradient)}},
          {{"TensorSumsMs", ms(stage.sums)},
           {"SendMs", ms(stage.send)},
           {"GradientsMs", ms(stage.gradients)},
           {"ExposedGradientsMs", ms(stage.sync)},
           {"OptimizerMs", ms(stage.optimizer)}},
          {{"PeakBytes", fmt::format("{:.0f}", stage.peak_bytes)}}};
}

}  // namespace

std::string profiled_plan(const Arguments& arguments) {
  if (arguments.cluster.empty()) throw UsageError("plan: --profiles needs --cluster=FILE, for its network");
  if (!arguments.job_file.empty()) throw UsageError("--job: not together with --profiles, which tell of the job");
  if (!arguments.gpu_counts.empty()) throw UsageError("--gpus: not together with --profiles, whose plan has its GPUs");
  if (!arguments.schedule.empty()) throw UsageError("--schedule: not together with --profiles, whose plan names it");
  std::vector<StageProfile> profiles;
  double device_seconds = 0;
  for (const std::string& path : arguments.profiles) {
    profiles.push_back(read_profile(path));
    device_seconds += profiles.back().device_seconds;
  }
  const PlanCluster cluster = read_plan_cluster(arguments.cluster);
  const SiteView seen = site_from_view(cluster.view, cluster.reports, cluster.hardware);
  const ProfiledStep step = profiled_step(seen.site.hardware, seen.site.topology, profiles);
  const Plan& plan = profiles.front().plan;
  if (arguments.json) return step_json(plan, step, device_seconds).dump(2) + "\n";
  std::string text = format(Record{{{"Plan", describe(plan)}},
                                   {{"StepMs", fmt::format("{:.3f}", step.step_ms)},
                                    {"TiedMs", fmt::format("{:.3f}", step.tied_ms)},
                                    {"ProfiledSeconds", fmt::format("{:.3f}", device_seconds)}}},
                            arguments.one_line);
  for (std::size_t s = 0; s < step.stages.size(); ++s)
    text += format(stage_record(s, step.stages[s]), arguments.one_line);
  return text;
}

}  // namespace espalier::cli
