#include "planner/core/schedule/payoff.hpp"

#include <algorithm>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/state_transfer.hpp"

namespace espalier {

// Training that the change wins, as time of the present plan.
double Payoff::won_seconds(const Player& one, double present_ms, double next_ms, int gpus) const {
  double idle = idle_ != nullptr ? idle_->seconds(gpus) : options_.idle_seconds;
  // A change gains nothing before the new generation has started, nor after the job's end.
  const auto start = input_.start_seconds.find(one.job->id);
  if (!options_.as_printed)
    idle = std::min(idle, remaining_seconds(*one.job)) -
           (start != input_.start_seconds.end() ? start->second : options_.start_seconds);
  return (present_ms / next_ms - 1) * idle;
}

bool Payoff::worth_its_pause(const Player& one, double present_ms, double next_ms, int gpus) const {
  if (next_ms * options_.least_gain > present_ms) return false;
  return won_seconds(one, present_ms, next_ms, gpus) > pause_seconds(one);
}

double Payoff::pause_seconds(const Player& one) const {
  const auto measured = input_.redeploy_seconds.find(one.job->id);
  return measured != input_.redeploy_seconds.end() ? measured->second : options_.redeploy_seconds;
}

bool Payoff::worth_its_move(const Player& one, double present_ms, double next_ms, const Plan& next) const {
  return next_ms * options_.least_gain <= present_ms &&
         won_seconds(one, present_ms, next_ms, 0) >
             pause_seconds(one) + transfer_seconds(one.virtual_job->problem(), *one.job->plan, next);
}

bool Payoff::worth_its_cost(const Player& one, double present_ms, double next_ms, const PlanSketch& next,
                            int gpus) const {
  return worth_its_pause(one, present_ms, next_ms, gpus) &&
         won_seconds(one, present_ms, next_ms, gpus) >
             transfer_seconds(one.virtual_job->problem(), next, one.first_held);
}

// The search ignores activations on slow links between stages. Its result is therefore checked
// once more, GPU by GPU.
bool Payoff::pays_as_placed(const Player& one, const PlanSketch& sketch, const Plan& plan, int gpus) const {
  const Problem& problem = one.virtual_job->problem();
  const auto exact_ms = [&](const Plan& placed) {
    return evaluate_plan(problem.hardware, problem.topology, problem.job, placed).exact_ms;
  };
  return worth_its_cost(one, exact_ms(*one.job->plan), exact_ms(plan), sketch, gpus);
}

ScaleOut Payoff::best_of(const Player& one) const {
  ScaleOut best;
  const auto& prefixes = one.virtual_job->prefixes();
  for (std::size_t i = 1; i < prefixes.size(); ++i) {
    if (!prefixes[i].plan.feasible() || one.doubtful.contains(i) || one.slow_placed.contains(i)) continue;
    if (!worth_its_cost(one, one.virtual_job->present().ms, prefixes[i].plan.ms, prefixes[i].plan.sketch,
                        prefixes[i].gpus))
      continue;
    const double benefit = one.virtual_job->benefit_of(i) * one.discount;
    if (benefit > best.benefit) best = {i, benefit, prefixes[i].plan.ms};
  }
  return best;
}

Pessimist& pessimist(Player& one) {
  if (!one.pessimist) one.pessimist = std::make_shared<Pessimist>(one.virtual_job->problem());
  return *one.pessimist;
}

// Whether a plan is worth its cost also with the worst of what is assumed. The paper's search
// does not ask.
bool Payoff::holds_if_assumed(Player& one, const PlanSketch& next, int gpus) const {
  if (options_.as_printed || !pessimist(one).doubts(next)) return true;
  return worth_its_cost(one, pessimist(one).ms(one.virtual_job->present().sketch), pessimist(one).ms(next), next, gpus);
}
bool Payoff::holds_as_placed(Player& one, const PlanSketch& sketch, const Plan& plan, int gpus) const {
  if (options_.as_printed || !pessimist(one).doubts(sketch)) return true;
  return worth_its_cost(one, pessimist(one).ms(*one.job->plan), pessimist(one).ms(plan), sketch, gpus);
}
std::string doubt_text(Player& one, const PlanSketch& next) {
  return "over the whole range of what is assumed (" + pessimist(one).doubted(next) + ")";
}

}  // namespace espalier
