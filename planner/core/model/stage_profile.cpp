#include "planner/core/model/stage_profile.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier {

std::string to_string(UnitKind kind) {
  switch (kind) {
    case UnitKind::embedding:
      return "embedding";
    case UnitKind::block:
      return "block";
    case UnitKind::head:
      return "head";
  }
  return "";
}

const UnitProfile* StageProfile::unit(UnitKind kind) const {
  const auto found =
      std::find_if(units.begin(), units.end(), [kind](const UnitProfile& one) { return one.kind == kind; });
  return found == units.end() ? nullptr : &*found;
}

namespace {

// Stages are profiled on different devices, perhaps by different builds: only the training must be the same.
bool same_training(const StageProfile& a, const StageProfile& b) {
  const auto of = [](ModelShape shape) {
    if (shape.setting) shape.setting->program = shape.setting->runtime = "";
    return shape;
  };
  return of(a.shape) == of(b.shape) && a.recompute == b.recompute && a.zero1 == b.zero1;
}

}  // namespace

void must_agree(const std::vector<StageProfile>& stages) {
  if (stages.empty()) throw Error("stage profiles: there is none; profile each stage of the plan");
  std::set<std::pair<int, int>> seen;
  const StageProfile& first = stages.front();
  for (const StageProfile& one : stages) {
    const std::string name =
        "stage profiles: stage " + std::to_string(one.stage) + ", replica " + std::to_string(one.replica);
    if (!(one.plan == first.plan)) throw Error(name + ": is of another plan than the first profile");
    if (!same_training(one, first)) throw Error(name + ": is of another model or training than the first profile");
    if (one.stage < 0 || static_cast<std::size_t>(one.stage) >= one.plan.stages.size() || one.replica < 0 ||
        static_cast<std::size_t>(one.replica) >= one.plan.stages[static_cast<std::size_t>(one.stage)].replicas.size())
      throw Error(name + ": is not in its plan");
    if (!seen.emplace(one.stage, one.replica).second) throw Error(name + ": is there twice; leave one of them out");
  }
}

Profile profile_of(const std::vector<StageProfile>& stages) {
  must_agree(stages);
  const StageProfile& any = stages.front();
  Profile profile;
  profile.plan = any.plan;
  profile.shape = any.shape;
  profile.boundary_bytes = any.plan.stages.size() > 1 ? any.boundary_bytes : 0;
  profile.recompute = any.recompute;
  profile.zero1 = any.zero1;
  profile.steps = any.steps;
  for (const StageProfile& stage : stages) {
    ReplicaProfile one;
    one.stage = stage.stage, one.replica = stage.replica;
    one.spread = 0;
    for (const UnitProfile& unit : stage.units) {
      one.fwd += unit.count * unit.forward;
      one.bwd += unit.count * (unit.backward + unit.weight_gradient);
      // With recomputation only one unit's weight gradients follow the last input gradient (Profiler).
      if (!any.recompute) one.bwd_weights += unit.count * unit.weight_gradient;
      one.optim += unit.count * unit.optimizer;
      one.spread = std::max(*one.spread, unit.spread);
      if (unit.kind == UnitKind::block) {
        one.gradient_bytes += unit.count * unit.gradient_bytes;
        one.weight_bytes += unit.count * unit.weight_bytes;
        one.state_bytes += unit.count * unit.state_bytes;
      } else {
        one.edge_gradient_bytes += unit.count * unit.gradient_bytes;
        one.edge_state_bytes += unit.count * unit.state_bytes;
      }
    }
    one.peak_bytes = stage.peak_bytes;
    profile.replicas.push_back(one);
  }
  return profile;
}

}  // namespace espalier
