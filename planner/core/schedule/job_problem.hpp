// An elastic job as a planning problem: its bounds and its present plan and GPUs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// Bounds of the planner's choice: the GPU range, the user's own degrees (ElasticJob::parallel), and
// what the accuracy sets. With bitwise the TP degree is the user's or 1, because its sums are part
// of a sample's arithmetic. Pipeline, replicas, shares and micro-batches change no bit, because
// gradients are then summed as integers. Rank 0 stays on the anchor's first node.
// `data_parallel_only`: the present plan's number of stages and TP degree are fixed as well.
PlanBounds bounds_of(const ElasticJob& job, const Site& site, bool data_parallel_only = false);

// The schedules and chunks that the job's plans may have: its program reports the schedule's name
// (TrainingSetting::schedule, "zb-v, 2 chunks"), its limits tell the chunks.
std::span<const PipelineForm> forms_of(const ElasticJob& job);
// The lists that the job's program told (ParallelLimits::lists). Null: none, or none that can be read.
std::shared_ptr<const OwnLists> told_lists(const ElasticJob& job);
// Whether the planner chooses them.
bool chooses_schedule(const ElasticJob& job);
// The plan in the form of its sketch where the planner chooses, else in the job's.
Plan in_its_form(Plan plan, PipelineForm chosen, const ElasticJob& job);

// The coefficients with only those TP degrees that the user allows, and with the job's own lists. Some degree always
// remains: if the user allows none that the model allows, the smallest one.
JobCoefficients as_the_job_allows(JobCoefficients coefficients, const ElasticJob& job);

// The counts of a plan. nullopt: the plan names a GPU that the site does not have.
std::optional<PlanSketch> sketch_of(const Plan& plan, const Site& site);

// GPUs of one holding, with the site's node index. `extension` 0: the anchor's GPUs.
struct HeldGpus {
  JobId extension = 0;
  NodeGpus at;
};

// The job's GPUs, holding by holding, and island by island of a holding. GPUs that the site does not know are left out.
std::vector<HeldGpus> held_by(const ElasticJob& job, const Site& site);
// The same per node, sorted. `without`: ids of extensions to leave out (sorted).
std::vector<NodeGpus> held_gpus(std::span<const HeldGpus> holdings, const std::vector<JobId>& without = {});

// Counts per node and type, sorted.
std::vector<Piece> pieces_of(const std::vector<NodeGpus>& gpus, const Site& site);

}  // namespace espalier
