// Whether a change of plans is worth what it costs the job. Internal to the scheduler.
#pragma once

#include <string>

#include "planner/core/schedule/player.hpp"

namespace espalier {

// For one decision. `options` and `input` must outlive this object.
class Payoff {
 public:
  // `idle`: how long idle GPUs stay so; null: SchedulerOptions::idle_seconds. It must outlive this object.
  Payoff(const SchedulerOptions& options, const PlanningInput& input, const IdleForecast* idle = nullptr)
      : options_(options), input_(input), idle_(idle) {}

  // Whether training gains more steps, while the GPUs are likely to stay idle and until the job
  // ends, than the change costs. `gpus`: GPUs that the new plan adds.
  bool worth_its_cost(const Player& one, double present_ms, double next_ms, const PlanSketch& next, int gpus) const;
  // The same without the transfer of state, for a plan that has no GPUs yet.
  bool worth_its_pause(const Player& one, double present_ms, double next_ms, int gpus) const;
  // The same with the transfer of state among the GPUs that the job has, for a plan on these alone.
  bool worth_its_move(const Player& one, double present_ms, double next_ms, const Plan& next) const;
  // worth_its_cost() for the plan as placed, GPU by GPU: the search ignores activations on slow links
  // between stages.
  bool pays_as_placed(const Player& one, const PlanSketch& sketch, const Plan& plan, int gpus) const;
  // Whether a plan is worth its cost also with the worst of what is assumed. The paper's search
  // does not ask.
  bool holds_if_assumed(Player& one, const PlanSketch& next, int gpus) const;
  bool holds_as_placed(Player& one, const PlanSketch& sketch, const Plan& plan, int gpus) const;
  // The best prefix of the idle GPUs that is worth its cost. Prefix 0: none is.
  ScaleOut best_of(const Player& one) const;

 private:
  double won_seconds(const Player& one, double present_ms, double next_ms, int gpus) const;
  double pause_seconds(const Player& one) const;
  const SchedulerOptions& options_;
  const PlanningInput& input_;
  const IdleForecast* const idle_;
};

Pessimist& pessimist(Player& one);  // made at the first call
// "over the whole range of what is assumed (overlap.h100)"
std::string doubt_text(Player& one, const PlanSketch& next);

}  // namespace espalier
