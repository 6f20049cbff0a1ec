// The time limits that users ask for.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/sim/policy.hpp"

namespace espalier::sim {

// The next time that people write down, not below `seconds`: 5, 10, 15, 30 min, 1, 2, 3, 4, 6, 8, 12, 18 h, then whole
// days. Nine of ten jobs have one of some twenty limits (Tsafrir, JSSPP 2010).
double rounded_limit(double seconds);

// Sets SimulatedJob::time_limit of all jobs, never below `alone`: the job's time alone on its basic plan, on the type
// that it asks for, else on the slowest. `traced`: by job, limit over run time in the trace, which the simulated job
// keeps; not above 0: the trace tells none. Such a job's time alone is a share of its limit that is drawn evenly from
// 0.1 to 1 by the seed, and the limit is then rounded up. The share is about evenly spread on real machines (Mu'alem
// and Feitelson, TPDS 2001). Each job has a draw of its own, which does not depend on the trace's limits.
void set_time_limits(std::vector<SimulatedJob>& jobs, const std::vector<JobKind>& kinds,
                     const std::vector<double>& traced, std::uint64_t seed);

}  // namespace espalier::sim
