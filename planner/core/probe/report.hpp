// What the ranks of `espalier calibrate` measured, as lines of JSON on rank 0's output. Pure.
#pragma once

#include <string>
#include <vector>

namespace espalier {

// GB/s are of 1e9 bytes.
struct GpuSpeed {
  std::string node;
  int gpu = 0;  // among the ranks of its node
  double tflops = 0;
  double memory_gb_s = 0;
};

// An all-reduce of all GPUs of one node, or of one GPU of each of two nodes.
struct ReduceSpeed {
  std::string node, other;   // `other` is empty inside a node
  bool activations = false;  // as tensor parallelism sums them; false: as replicas sum gradients
  int members = 0;
  double bytes = 0;
  double gb_s = 0;  // what every member sends: 2 (1 - 1/members) bytes, by the time
};

// Messages from `streams` GPUs of one node to as many of another, all at once.
struct LinkSpeed {
  std::string from, to;
  int streams = 0;
  double bytes = 0;  // of one message
  double gb_s = 0;   // of all streams together
};

struct ProbeReport {
  std::vector<GpuSpeed> gpus;
  std::vector<ReduceSpeed> reduces;
  std::vector<LinkSpeed> links;
  bool ended = false;     // its last line is there
  bool complete = false;  // nothing was left out for want of time
};

std::string to_line(const GpuSpeed& speed);
std::string to_line(const ReduceSpeed& speed);
std::string to_line(const LinkSpeed& speed);
std::string last_line(bool complete);

// Other lines, such as warnings of MPI, are passed over. Throws Error when a line of ours is
// malformed.
ProbeReport probe_report(const std::string& output);

}  // namespace espalier
