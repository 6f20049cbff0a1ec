// Predicts whether a smaller generation can take over before Slurm takes the GPUs, and limits the phases of a hand-off.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/slurm/slurm.hpp"
#include "planner/core/job.hpp"
#include "planner/wire/config.hpp"

namespace espalier::launcher {

// Seconds that the phases of the job's last change of generation took. 0: not measured yet.
struct MeasuredPhases {
  double start = 0;  // processes, connections, buffers
  double step = 0;   // until a boundary is reached, at most
  double load = 0;
  // At the boundary, until the old generation has saved its state or has given the state on nodes that go. `load`
  // follows.
  double stand = 0;
};

// The least number of seconds from Slurm's notice to the kill. A preemption leaves GraceTime, the end of a lease leaves
// KillWait. If both are set, the shorter one counts. nullopt: neither is set.
std::optional<double> grace_seconds(const SlurmSite& site, const std::string& partition);

// Computed from a hand-off's phases in ms (Outcome::phases_ms). `sent_early`: the hand-off sent state before its pause.
// The next hand-off may have to send such state in its pause, so its time counts as load time.
MeasuredPhases measured_phases(const std::map<std::string, double>& phases_ms, bool sent_early);

// Seconds for which state may be sent while the old generation trains. They are added to `start_seconds` up to twice:
// once, and once more if need be. 0: no state is sent early, e.g. because GPUs go away (`gives_back`) and Slurm may
// take them at any moment.
// The limit is two steps: a transfer that takes longer than a step is out of date when it ends, and a step may take
// longer while the transfer uses the processors. The limit is at most a quarter of `start_seconds`.
double early_seconds(double step_seconds, int start_seconds, bool gives_back);

// The seconds that the next hand-off is likely to take.
double predicted_seconds(const MeasuredPhases& measured);

// The limit in seconds for a hand-off to reach its boundary and to finish its work there. It is the largest of:
// - `switch_seconds`, which the site sets;
// - three steps plus 5 s;
// - `hang_seconds` if the method goes through the disk, since a checkpoint may take as long as a step may hang.
int boundary_seconds(int switch_seconds, int hang_seconds, double step_seconds, HandoffMethod method);

// Seconds after which a worker may take a launcher for broken that has not said what comes next (ESPALIER_PATIENCE).
// Longer than all limits of the phases (PhaseDeadline): a worker that gives up first would end a training whose
// launcher only gives up a change. No step is longer than `hang_seconds`.
int worker_patience(const wire::Config& config);

}  // namespace espalier::launcher
