// Profiles of stages as espalier-train --profile-plan would measure them, with simple numbers.
#pragma once

#include <functional>

#include "planner/core/stage_profile_json.hpp"
#include "tests/unit/model_cases.hpp"

namespace espalier::model_cases {

struct UnitCost {
  double forward, backward, weight_gradient, optimizer;
};
inline constexpr UnitCost kEmbedding{1, 0, 2, 0.5}, kBlock{4, 5, 3, 1}, kHead{2, 2, 2, 0.25};
inline constexpr double kUnitGradient = 80, kBoundary = 50;  // bytes; the boundary's per sample

inline Plan two_stages() { return {16, 4, {{6, 1, {replica(4, 0, 0, 1)}}, {6, 1, {replica(4, 2, 0, 1)}}}, {}, "1f1b"}; }

inline UnitProfile unit_profile(UnitKind kind, const UnitCost& cost, int count) {
  UnitProfile unit;
  unit.kind = kind;
  unit.count = count;
  unit.forward = cost.forward, unit.backward = cost.backward;
  unit.weight_gradient = cost.weight_gradient, unit.optimizer = cost.optimizer;
  unit.gradient_bytes = unit.accumulator_bytes = kUnitGradient;
  unit.weight_bytes = kUnitGradient;
  unit.state_bytes = 3 * kUnitGradient;
  return unit;
}

inline StageProfile stage_profile(const Plan& plan, int stage, int replica = 0) {
  StageProfile profile;
  profile.plan = plan;
  profile.stage = stage, profile.replica = replica;
  profile.shape = {"gpt2", plan.total_layers(), 64, 8, 16, 500, 16, 4};
  const auto chunks = plan.model_chunks();
  if (chunks.front().stage == stage) profile.units.push_back(unit_profile(UnitKind::embedding, kEmbedding, 1));
  profile.units.push_back(unit_profile(UnitKind::block, kBlock, plan.stages[static_cast<std::size_t>(stage)].layers));
  if (chunks.back().stage == stage) profile.units.push_back(unit_profile(UnitKind::head, kHead, 1));
  profile.boundary_bytes = kBoundary;
  profile.peak_bytes = 5000;
  profile.not_measured = {"messages between stages"};
  profile.warmup = 2, profile.steps = 8;
  return profile;
}

inline std::vector<StageProfile> all_stages(const Plan& plan) {
  std::vector<StageProfile> profiles;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) profiles.push_back(stage_profile(plan, static_cast<int>(s)));
  return profiles;
}

}  // namespace espalier::model_cases
