// predict: takes a job's coefficients from one measured profile and predicts other plans.
#include <cstdio>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "tests/bench/train/commands.hpp"

namespace espalier::bench {
namespace {

struct Arguments {
  std::string profile, plans;
  double tp_bandwidth = 1e6, dp_bandwidth = 1e6;  // bytes/ms
  bool tied = true;
};

Json read(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(path + ": cannot be read");
  return Json::parse(in);
}

// All ranks are GPUs of one node.
void predict(const Arguments& arguments) {
  const auto profile = read(arguments.profile).get<Profile>();
  Hardware hardware;
  hardware.types.push_back({"cpu", 1, 1e12, 0});
  hardware.kinds.push_back({arguments.tp_bandwidth, arguments.dp_bandwidth, arguments.dp_bandwidth, 0});
  hardware.v_sat = hardware.v0;  // no ramp, since links are memory
  Topology topology;
  const std::string node = profile.plan.ranks().front().node;
  topology.add_node(node, 0, std::vector<std::int16_t>(64, 0), {});
  Training training;
  training.tied = arguments.tied;
  const Calibration calibration = calibrate(hardware, topology, profile, training);

  Json result = {{"remarks", calibration.remarks}, {"plans", Json::array()}};
  const GpuCoefficients& gpu = calibration.job.gpu.front();
  result["coefficients"] = {{"comp", gpu.comp},
                            {"backward", gpu.backward},
                            {"optim", gpu.optim},
                            {"overlap", gpu.overlap},
                            {"first_layers", calibration.job.first.compute_layers},
                            {"last_layers", calibration.job.last.compute_layers}};
  for (const Json& wanted : read(arguments.plans)) {
    JobCoefficients job = calibration.job;
    job.recompute = wanted.value("recompute", false);
    job.zero1 = wanted.value("zero1", false);
    const Prediction prediction = evaluate_plan(hardware, topology, job, wanted.at("plan").get<Plan>());
    if (!prediction.feasible) throw Error("predict: " + prediction.why_not);
    Json one = {{"printed_ms", prediction.printed_ms}, {"exact_ms", prediction.exact_ms}, {"stages", Json::array()}};
    for (const StagePrediction& stage : prediction.stages)
      one["stages"].push_back({{"fwd", stage.time.fwd},
                               {"bwd", stage.time.bwd},
                               {"sync", stage.sync},
                               {"optim", stage.optim},
                               {"peak_bytes", stage.memory.peak}});
    result["plans"].push_back(one);
  }
  std::printf("%s\n", result.dump().c_str());
}

}  // namespace

void add_predict(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("predict", "predict plans from one measured profile");
  command->add_option("--profile", arguments->profile, "a line of [profile] path")->required();
  command->add_option("--plans", arguments->plans, "JSON: [{plan, recompute, zero1}]")->required();
  command->add_option("--tp-bandwidth", arguments->tp_bandwidth, "bytes/ms");
  command->add_option("--dp-bandwidth", arguments->dp_bandwidth, "bytes/ms");
  command->callback([arguments] { predict(*arguments); });
}

}  // namespace espalier::bench
