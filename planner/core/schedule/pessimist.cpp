#include "planner/core/schedule/pessimist.hpp"

#include <algorithm>

#include "planner/core/model/assumed_range.hpp"
#include "planner/core/model/degree_factor.hpp"
#include "planner/core/model/evaluate_plan.hpp"

namespace espalier {
namespace {

Hardware without_memory_limits(Hardware hardware) {
  for (GpuType& type : hardware.types) type.memory_bytes = 1e30;
  return hardware;
}

std::vector<bool> types_of(const PlanSketch& sketch, std::size_t count) {
  std::vector<bool> types(count, false);
  for (const StageSketch& stage : sketch.stages)
    for (const Piece& piece : stage.pieces)
      if (piece.type >= 0 && static_cast<std::size_t>(piece.type) < count)
        types[static_cast<std::size_t>(piece.type)] = true;
  return types;
}

}  // namespace

Pessimist::Pessimist(const Problem& problem)
    : expected_(problem.job),
      worst_(worst_of_assumed(problem.job)),
      topology_(problem.topology),
      given_(problem.hardware),
      hardware_(without_memory_limits(problem.hardware)),
      evaluator_(Problem{hardware_, topology_, worst_, problem.bounds, problem.forms}) {}

bool Pessimist::doubts(const PlanSketch& next) const {
  return gain_is_assumed(expected_, types_of(next, expected_.gpu.size())) ||
         std::any_of(next.stages.begin(), next.stages.end(),
                     [&](const StageSketch& stage) { return !degree_is_measured(expected_, stage.tp); });
}

std::string Pessimist::doubted(const PlanSketch& next) const {
  const auto types = types_of(next, expected_.gpu.size());
  std::string names;
  for (const CoefficientState& state : coefficient_states(expected_, hardware_)) {
    if (state.measured || state.name == "memory") continue;
    if (state.name == "degrees" && !expected_.degree_factors.empty()) continue;  // named below one by one
    const auto dot = state.name.find('.');
    const int type = dot == std::string::npos ? -1 : hardware_.type_index(state.name.substr(dot + 1));
    if (type >= 0 && !types[static_cast<std::size_t>(type)]) continue;
    names += (names.empty() ? "" : ", ") + state.name;
  }
  for (const StageSketch& stage : next.stages)
    if (!degree_is_measured(expected_, stage.tp))
      names += (names.empty() ? "" : ", ") + std::string("replicas_of.") + std::to_string(stage.tp);
  return names;
}

double Pessimist::ms(const Plan& plan) const { return evaluate_plan(hardware_, topology_, worst_, plan).exact_ms; }

PlacementReach Pessimist::reach(const Plan& plan) const { return reach_of(plan, given_, topology_, worst_); }

}  // namespace espalier
