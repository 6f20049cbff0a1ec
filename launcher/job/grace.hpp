// Whether a smaller generation can take over before Slurm takes the GPUs. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/slurm/slurm.hpp"
#include "planner/core/job.hpp"

namespace espalier::launcher {

// Seconds that the phases of the job's last generation took; 0: not measured yet.
struct MeasuredPhases {
  double start = 0;  // processes, connections, buffers
  double step = 0;   // until a boundary is reached, at most
  double load = 0;
  double stand = 0;  // at the boundary, before the next generation loads: it saves, or gives what it takes along
};

// From Slurm's notice until it kills, at least: a preemption's GraceTime, the KillWait of a lease that ends, the
// shorter one where both are set; nullopt when Slurm sets none.
std::optional<double> grace_seconds(const SlurmSite& site, const std::string& partition);

// Of a hand-off's phases in ms (Outcome::phases_ms). What it had `sent_early` the next one may have to send in its
// pause.
MeasuredPhases measured_phases(const std::map<std::string, double>& phases_ms, bool sent_early);

// How long state may be sent while the old generation trains, once and if need be once more, beside `start_seconds`; 0:
// not at all. What takes longer than a step is overtaken, but the next ones may take longer than those before: their
// processors have more to do. Not where GPUs go away: Slurm may want them any moment.
double early_seconds(double step_seconds, int start_seconds, bool gives_back);

// What a change-over is likely to take.
double predicted_seconds(const MeasuredPhases& measured);

// After which a hand-off is given up that has not got to a boundary and through what is done there: what the site says,
// longer where three steps are, and where a checkpoint is written or read as long as a step may hang.
int boundary_seconds(int switch_seconds, int hang_seconds, double step_seconds, HandoffMethod method);

}  // namespace espalier::launcher
