// Other plans on the GPUs that a job has, run for some steps each. The model of iteration times is linear: a sample of
// a layer takes k_comp / TP, in whatever company. GPUs are not. They use narrow shards and short micro-batches badly,
// and some operations are not divided at all, so that the plan that the model thinks fastest may not be. Some steps of
// another plan tell more than any model, and cost little where a change of plans stops training for milliseconds. After
// the trials the job has the fastest of the plans that were measured. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/core/decision.hpp"
#include "planner/core/job.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// What is tried: of plans that agree in this only one is.
struct PlanShape {
  int stages = 1;
  int tp = 1;  // the largest of its stages
  int micro_batches = 1;
  auto operator<=>(const PlanShape&) const = default;
};
PlanShape shape_of(const Plan& plan);

struct MeasuredPlan {
  Plan plan;
  double step_seconds = 0;
};

// Of one job. A change of its GPUs begins it anew.
struct PlanTrials {
  std::vector<GpuId> gpus;  // sorted
  std::vector<MeasuredPlan> measured;
  std::vector<PlanShape> begun;  // trials, whether they came to their steps or failed
  bool finished = false;         // nothing is left to try, and the job has the fastest plan
  int generation = -1;           // of the last note, with its plan, and its step when both were first seen
  std::int64_t from_step = 0;
  Plan plan = {};
};

// Steps of a plan until its step time counts, which the launcher averages.
inline constexpr std::int64_t kTrialSteps = 20;

// Takes a report of the job into account. Returns whether the plan that it has now is measured.
bool note_steps(PlanTrials& trials, const ElasticJob& job);
// Whether the plan was measured: a change to it is the end of the trials, not one more.
bool is_measured(const PlanTrials& trials, const Plan& plan);

// The next plan to try, or at last the change to the fastest one: a decision of kind migrate without new GPUs. At most
// `most` plans beside the first are tried, one for each number of stages and TP degree: first the one that may be the
// fastest by what the measured ones tell of it (PlanResiduals), and none that is expected to be much slower than the
// fastest that was measured. Then the fastest one with more or fewer micro-batches. nullopt: nothing is left to do. The
// job has a plan, which is measured; `coefficients` are by the types of `site`.
std::optional<Decision> next_trial(const PlanTrials& trials, const ElasticJob& job, const Site& site,
                                   const JobCoefficients& coefficients, int most);

}  // namespace espalier
