// Writes a rank's operations to a file for chrome://tracing or Perfetto.
#pragma once

#include <span>
#include <string>

#include "torchrt/line_file.hpp"
#include "torchrt/profiler/op_recorder.hpp"

namespace espalier::torchrt {

// Events of one rank in Chrome's JSON array format. Each line is one event and a comma; the format
// allows the array's end to be missing. `ts`, `dur`, args.waited and args.sums are microseconds of
// the host's steady clock.
std::string trace_events(std::span<const OpTimes> times, int rank);

// FOLDER/rank-N.json. Makes the folder.
std::string trace_file(const std::string& folder, int rank);

// Appends to a trace file, which begins with "[".
void append_trace(LineFile& file, int rank, std::span<const OpTimes> times);

}  // namespace espalier::torchrt
