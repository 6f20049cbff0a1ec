// Checks launchers' reports before the planner computes with them or stores them. Pure.
#pragma once

#include "planner/wire/messages.hpp"

namespace espalier {

// Both throw Error when a figure is out of the range that planning can handle. The message names
// the job and the figure. A launcher is a user's process: its report must not make the planner
// hang, overflow or run out of memory.
void check_report(const ElasticJob& job);
void check_report(const wire::Outcome& outcome);  // an outcome without a plan is valid

// The same for plans and lists of more than `most_gpus` GPUs: what Slurm confirms for the job, or
// the site's limit. What is stored and shown of a job is thereby no larger than the job.
void check_size(const ElasticJob& job, int most_gpus);
void check_size(const wire::Outcome& outcome, int most_gpus);

}  // namespace espalier
