// Profiles as a runtime would report them. The model makes them from known coefficients.
#pragma once

#include "planner/core/model/calibrate.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "tests/unit/model_cases.hpp"

namespace espalier::model_cases {

inline const ModelShape kShape{"gpt2", 12, 64, 8, 16, 500, 16, 4};

// Coefficients of kShape that a profile can give back exactly. k_activ-np is the family's 5
// k_activ.
inline JobCoefficients known_job(const Training& training) {
  JobCoefficients known = model_sizes(kShape, training, 2);
  known.param_bytes *= 1.1;  // differs from the formulas
  known.param_optim_bytes *= 1.2;
  known.weight_bytes *= 1.05;
  known.activ_bytes *= 1.3;
  known.activ_np_bytes = 5 * known.activ_bytes;
  known.activ_p_bytes = 400 * known.activ_bytes;  // exceeds the gradients, also with recomputation
  for (EdgeCoefficients* edge : {&known.first, &known.last}) {
    edge->param_bytes *= 1.15;
    edge->param_optim_bytes = 2.7 * edge->param_bytes;
  }
  if (training.tied) known.tied_bytes = known.last.param_bytes + known.last.param_optim_bytes;
  known.sums_by_unit = training.sums_by_unit;
  known.gpu[0] = {0.03, 2.1, 0.5, 1.7, false, false, false, false};
  known.gpu[1] = {0.08, 1.8, 1.5, 3.2, false, false, false, false};
  return known;
}

// Rates of one replica that is alone on its stage.
inline StageRates alone(const Cluster& c, const JobCoefficients& known, const Stage& stage, const Replica& replica) {
  StageShape shape;
  shape.classes[0] = replica_class(c.topology, replica);
  shape.class_count = 1;
  shape.tp = stage.tp;
  shape.replicas = 1;
  Shares shares;
  shares.most[0] = replica.share;
  shares.more[0] = 1;
  shares.feasible = true;
  return stage_rates(c.hardware, known, shape, shares);
}

inline Profile profile_of(const Cluster& c, const JobCoefficients& known, const Plan& plan) {
  Profile profile;
  profile.plan = plan;
  profile.shape = kShape;
  if (known.sums_by_unit)
    profile.shape.setting =
        TrainingSetting{"espalier-train 0.1.0", "torch", "float32", "1f1b", known.recompute, known.zero1};
  profile.recompute = known.recompute;
  profile.zero1 = known.zero1;
  if (plan.stages.size() > 1) profile.boundary_bytes = known.activ_bytes;
  const Prediction prediction = evaluate_plan(c.hardware, known, place_plan(c.topology, plan));
  const int count = static_cast<int>(plan.stages.size());
  for (int s = 0; s < count; ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    const StagePosition at{s, count, plan.micro_batches};
    const auto dp = static_cast<double>(known.zero1 ? stage.replicas.size() : 1);
    const StageLoad load = stage_load(known, stage.layers, at.first(), at.last());
    for (std::size_t j = 0; j < stage.replicas.size(); ++j) {
      const Replica& replica = stage.replicas[j];
      const StageRates rates = alone(c, known, stage, replica);
      const auto& gpu = known.gpu[static_cast<std::size_t>(replica_class(c.topology, replica).type)];
      ReplicaProfile one;
      one.stage = s;
      one.replica = static_cast<int>(j);
      one.comm_fwd = stage.layers * (rates.fwd - rates.comp_fwd);
      one.fwd = load.compute_layers * rates.comp_fwd + one.comm_fwd;
      one.bwd = load.compute_layers * rates.comp_bwd + stage.layers * (rates.bwd - rates.comp_bwd);
      one.bwd_weights = known.deferred * load.compute_layers * rates.comp_bwd;
      one.optim = gpu.optim * load.gradient_bytes / known.param_bytes / stage.tp / dp;
      if (stage.replicas.size() > 1) one.sync = prediction.stages[static_cast<std::size_t>(s)].sync;
      const double share_of_gpu = static_cast<double>(stage.layers) / stage.tp;
      one.gradient_bytes = known.param_bytes * share_of_gpu;
      one.weight_bytes = known.weight_bytes * share_of_gpu;
      one.state_bytes = (known.weight_bytes + (known.param_optim_bytes - known.weight_bytes) / dp) * share_of_gpu;
      one.edge_gradient_bytes = (load.gradient_bytes - known.param_bytes * stage.layers) / stage.tp;
      const double weights = known.weight_bytes / known.param_optim_bytes;
      double edge_state = 0;
      if (at.first()) edge_state += known.first.param_optim_bytes;
      if (at.last()) edge_state += known.last.param_optim_bytes;
      if (at.first() && at.last() && known.tied_bytes > 0) edge_state -= known.last.param_optim_bytes;
      one.edge_state_bytes = edge_state * (weights + (1 - weights) / dp) / stage.tp;
      one.peak_bytes =
          peak_memory(known, stage.layers, replica.share, stage.tp, static_cast<int>(stage.replicas.size()), at).peak;
      profile.replicas.push_back(one);
    }
  }
  return profile;
}

}  // namespace espalier::model_cases
