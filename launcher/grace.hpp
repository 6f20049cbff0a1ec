// Whether a smaller generation can take over before Slurm takes the GPUs. Pure.
#pragma once

#include <optional>

#include "launcher/slurm.hpp"

namespace espalier::launcher {

// Seconds that the phases of the job's last generation took; 0: not measured yet.
struct MeasuredPhases {
  double start = 0;  // processes, connections, buffers
  double step = 0;   // until a boundary is reached, at most
  double load = 0;
};

// From Slurm's notice until it kills, at least: a preemption's GraceTime, the KillWait of a lease that ends, the
// shorter one where both are set; nullopt when Slurm sets none.
std::optional<double> grace_seconds(const SlurmSite& site, const std::string& partition);

// What a change-over is likely to take.
double predicted_seconds(const MeasuredPhases& measured);

}  // namespace espalier::launcher
