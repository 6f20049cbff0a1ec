// Job traces: what a cluster's accounting says of the jobs that ran on it.
#pragma once

#include <string>
#include <vector>

namespace espalier::sim {

struct TraceJob {
  double submit = 0;   // seconds since the epoch, or since the trace's beginning
  double seconds = 0;  // that it ran
  int gpus = 0;
  std::string id;
  std::string model;  // of the table of kinds; empty: not said
  long line = 0;      // of the file
  double steps = 0;   // of its training; then they, not its time, are what it has to do. 0: not said
};

struct DamagedRow {
  long line = 0;
  std::string why;
};

struct Trace {
  std::vector<TraceJob> jobs;       // sorted by (submit, line)
  std::vector<DamagedRow> damaged;  // rows that cannot be read, by line
  long left_out = 0;                // rows that are in order but no job to simulate: no GPUs, not ended, steps
  int cluster_gpus = 0;             // of the cluster it was taken on; 0: not known
};

enum class TraceFormat { csv, philly, philly_json, helios, pai, arena, sacct };

// By name ("csv", "philly", "philly-json", "helios", "pai", "arena", "sacct"); throws Error that lists them.
TraceFormat trace_format(const std::string& name);
// By how the text begins. Throws Error when it is none that is known.
TraceFormat detect_trace_format(const std::string& text);

// Never throws for a damaged row; throws Error when the text as a whole is not of the format (no or another header).
Trace parse_trace(const std::string& text, TraceFormat format);

// The start of the `length` seconds in which most jobs were submitted; the first of equal ones. 0 for an empty trace.
double busiest_window(const Trace& trace, double length);

}  // namespace espalier::sim
