// Deadlines: a job that would miss its deadline at its present speed grows before others.
#pragma once

#include "planner/core/job.hpp"

namespace espalier {

// Factor on the job's marginal benefits: the time that the job still needs at its present speed,
// over the time until its deadline, between 1 and 4. Example: 30 minutes of work 20 minutes before
// the deadline give 1.5. 1 without a deadline, after the deadline, and while the job's number of
// steps or its speed is not known. `now` in seconds since the epoch. `slower`: for steps that take so
// many times as long.
double urgency(const ElasticJob& job, double now, double slower = 1);

}  // namespace espalier
