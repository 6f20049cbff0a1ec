// The cluster as one training sees it. Its ranks reach each other's GPU memory inside a node only in the step of one
// Slurm job: with Slurm's ConstrainDevices no process sees GPUs of another job, and NCCL is told that they are other
// hosts. So the anchor's GPUs, those of each extension, and those that a new extension would get are islands of a node
// that has several of them, with the network in between; so are GPUs of one Slurm job whose ranks said that they do not
// reach each other (GpuIslands).
#pragma once

#include <memory>

#include "planner/core/job.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// `site` divided into the job's islands (Topology::add_island). GPUs that the job does not hold keep their node's id,
// because it gets those of one decision as one extension. A node with only one island is not divided. Islands that one
// TP group of the job's present plan joins become one, because the group's speed was measured over both.
// Returns `site` itself where no node is divided, and with Hardware::jobs_reach or ElasticJob::jobs_reach.
std::shared_ptr<const Site> site_for(std::shared_ptr<const Site> site, const ElasticJob& job);
Site site_for(const Site& site, const ElasticJob& job);

}  // namespace espalier
