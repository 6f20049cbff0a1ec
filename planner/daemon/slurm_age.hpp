// How long counts what slurmctld has told of its configuration and of its accounting, which seldom change.
#pragma once

namespace espalier {

inline constexpr double kConfigurationSeconds = 60;  // what changes when slurmctld is reconfigured is read again then

// `read`, `now`: seconds since the epoch. The clock may have been set back since.
inline bool is_old(double read, double now) { return now < read || now - read > kConfigurationSeconds; }

}  // namespace espalier
