// The time of a step, and what each stage holds, for one pipeline schedule and the costs of its chunks: from its lists,
// operation by operation. (FlexTrain eqs. 7, 8 and 11.)
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline/schedule.hpp"
#include "planner/core/pipeline_form.hpp"

namespace espalier {

// Deeper pipelines are not simulated.
inline constexpr int kMostListedStages = 128;

// The same lists with each B taken apart into I and, right behind it, W: so the trainer runs them, and the gradient of
// the inputs leaves in between.
pipeline::Schedule in_parts(pipeline::Schedule lists);
// The lists of a form, in such parts. The last few are kept, by thread.
std::shared_ptr<const pipeline::Schedule> lists_of(PipelineForm form, int stages, int micro_batches);

// Time from the start of the step until every stage has done its lists and then `after` (by stage: exposed
// synchronization and the optimizer). `costs` by chunk; `backward` of them is not used. With very many micro-batches
// the steady state is simulated for some rounds, and its rounds are counted; see kRounds.
double scheduled_time(PipelineForm form, int stages, int micro_batches, const pipeline::Costs& costs,
                      std::span<const double> after);

// The same of these lists, all of whose B are in parts.
double time_of_lists(const pipeline::Schedule& lists, const pipeline::Costs& costs, std::span<const double> after);

// So many micro-batches hold as much as `micro_batches` do: further ones only repeat the steady state. Interleaved
// groups of other sizes may hold a little less. Not for gpipe, which holds all.
int enough_micro_batches(int stages, int micro_batches);

// By stage: the most that is held, where a chunk counts `weight` from its F to the end of its W, or with `recompute` of
// its I.
std::vector<double> most_held(const pipeline::Schedule& lists, std::span<const double> weight, bool recompute);
// The same of one stage's list.
double most_held_by(std::span<const pipeline::Action> list, std::span<const double> weight, bool recompute);

}  // namespace espalier
