// Writes measurements to files: profiles as JSON lines, and a rank's operations for
// chrome://tracing or Perfetto.
#pragma once

#include <span>
#include <string>

#include "planner/core/model/profile.hpp"
#include "torchrt/profiler/op_recorder.hpp"

namespace espalier::torchrt {

// Events of one rank in Chrome's JSON array format. Each line is one event and a comma; the format
// allows the array's end to be missing. `ts`, `dur`, args.waited and args.sums are microseconds of
// the host's steady clock.
std::string trace_events(std::span<const OpTimes> times, int rank);

// Appends to FOLDER/rank-N.json, which begins with "[". Throws Error.
void append_trace(const std::string& folder, int rank, std::span<const OpTimes> times);

// Appends one line to `path`. Throws Error.
void append_profile(const std::string& path, const Profile& profile);

}  // namespace espalier::torchrt
