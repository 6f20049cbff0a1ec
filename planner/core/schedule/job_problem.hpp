// An elastic job as a planning problem: what it may become, and where it stands.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/solver/sketch.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// What the planner may choose: GPU range, and what accuracy fixes: with bitwise the TP degree, whose sums are part of a
// sample's arithmetic, and the number of micro-batches. Pipeline, replicas and shares change no bit: gradients are then
// summed as integers. Rank 0 stays on the anchor's first node.
// `data_parallel_only`: the present plan's number of stages and TP degree are fixed as well.
PlanBounds bounds_of(const ElasticJob& job, const Site& site, bool data_parallel_only = false);

// The counts of a plan; nullopt when it names a GPU that the site does not have.
std::optional<PlanSketch> sketch_of(const Plan& plan, const Site& site);

// What the job holds, per node, sorted; unknown nodes are left out. `without`: extensions that leave (sorted).
std::vector<NodeGpus> held_gpus(const ElasticJob& job, const Site& site, const std::vector<JobId>& without = {});

// Counts per node and type, sorted.
std::vector<Piece> pieces_of(const std::vector<NodeGpus>& gpus, const Site& site);

}  // namespace espalier
