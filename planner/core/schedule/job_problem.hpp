// An elastic job as a planning problem: what it may become, and where it stands.
#pragma once

#include <optional>
#include <span>
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

// GPUs of one holding, by the site's node; `extension` 0: the anchor's own.
struct HeldGpus {
  JobId extension = 0;
  NodeGpus at;
};

// What the job holds, holding by holding; what the site does not know is left out.
std::vector<HeldGpus> held_by(const ElasticJob& job, const Site& site);
// The same per node, sorted. `without`: extensions that leave (sorted).
std::vector<NodeGpus> held_gpus(std::span<const HeldGpus> holdings, const std::vector<JobId>& without = {});

// Counts per node and type, sorted.
std::vector<Piece> pieces_of(const std::vector<NodeGpus>& gpus, const Site& site);

}  // namespace espalier
