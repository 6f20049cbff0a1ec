// The command line of `espalier schedule`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::cli {

struct ScheduleArguments {
  int ranks = 0, micro_batches = 0;
  int chunks = 0;                  // on each rank; 0: what the kind needs
  std::vector<std::string> kinds;  // names of generators
  std::string file;                // read this schedule; empty: none
  JobId job = 0;                   // take its costs (schedule_job.hpp); 0: none
  std::string profile;             // the same from this file; empty: none
  bool search = false;
  double effort = 1;  // of the search, as a factor on its bound of work
  // One value, or one a rank, or one a chunk. Of a rank's whole part of the model on one micro-batch, unless it is one
  // a chunk.
  std::vector<double> forward = {1}, backward_input = {1}, backward_weight = {1}, backward, activation = {1};
  double freed_by_input = 0;   // share of the activations
  double hop = 0;              // time of a message between ranks
  std::vector<double> memory;  // one value or one a rank; empty: no limit
  // What the model's first and last chunk have besides, on one micro-batch; `memory` of the rank that has the chunk.
  struct Edge {
    double forward = 0, backward_input = 0, backward_weight = 0, memory = 0;
  };
  Edge first, last;
  bool json = false, draw = false;
  std::string svg, csv;  // files to write; empty: none
};

// nullopt: `help` is to be printed. Throws UsageError.
std::optional<ScheduleArguments> parse_schedule(const std::vector<std::string>& words, std::string& help);

}  // namespace espalier::cli
