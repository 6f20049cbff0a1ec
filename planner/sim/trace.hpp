// Job traces: a cluster's accounting records of its jobs.
#pragma once

#include <string>
#include <vector>

namespace espalier::sim {

struct TraceJob {
  double submit = 0;   // seconds since the epoch, or since the trace's beginning
  double seconds = 0;  // run time
  int gpus = 0;
  std::string id;
  std::string model;  // a model of the table of kinds; empty: not given
  long line = 0;      // line in the file
  // Training steps; they replace `seconds` as the job's work. 0: not given.
  double steps = 0;
  std::string gpu_type = {};  // that it asked for; empty: any
  // Training steps of a job whose model has measured times; for other jobs `seconds` counts. 0: not
  // given.
  double measured_steps = 0;
  double limit = 0;  // its time limit, seconds; 0: not given, or none
};

struct DamagedRow {
  long line = 0;
  std::string why;
};

struct Trace {
  std::vector<TraceJob> jobs;       // sorted by (submit, line)
  std::vector<DamagedRow> damaged;  // unreadable rows, by line
  // Valid rows that are no job to simulate: no GPUs, not ended, or job steps.
  long left_out = 0;
  int cluster_gpus = 0;  // GPUs of the trace's cluster; 0: unknown
};

enum class TraceFormat { csv, philly, philly_json, helios, pai, arena, sacct };

// Finds a format by name ("csv", "philly", "philly-json", "helios", "pai", "arena", "sacct").
// Throws Error, listing the names.
TraceFormat trace_format(const std::string& name);
// Finds the format from the beginning of the text. Throws Error when the format is unknown.
TraceFormat detect_trace_format(const std::string& text);

// Does not throw for a damaged row. Throws Error when the text as a whole is not of the format (no
// header or another one).
Trace parse_trace(const std::string& text, TraceFormat format);

// The start of the `length` seconds with the most submissions, the first of equal ones. 0 for an
// empty trace.
double busiest_window(const Trace& trace, double length);

}  // namespace espalier::sim
