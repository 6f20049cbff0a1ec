// The iteration time of a plan with another schedule than 1F1B, or with chunks, from its stages' times.
#pragma once

#include <span>
#include <vector>

#include "planner/core/model/iteration_time.hpp"
#include "planner/core/pipeline/costs.hpp"
#include "planner/core/pipeline_form.hpp"

namespace espalier {

// The chunks of stages with so many layers; where `form` has one each, the stages themselves.
std::vector<Chunk> cut_or_whole(std::span<const int> layers, PipelineForm form);

// What each chunk costs on one micro-batch. `rates` and `times` by stage; of `times` only `send` counts: from a stage
// to the next, and from the last stage to the first for chunks that go round.
pipeline::Costs chunk_costs(const JobCoefficients& job, std::span<const StageRates> rates,
                            std::span<const StageTime> times, std::span<const Chunk> chunks);

// As exact_iteration(), by the job's own lists where they run, else by the form's. `times[s].extra`: after the stage's
// last work.
double scheduled_iteration(const JobCoefficients& job, PipelineForm form, std::span<const StageRates> rates,
                           std::span<const StageTime> times, std::span<const Chunk> chunks, int micro_batches);

}  // namespace espalier
