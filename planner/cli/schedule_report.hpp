// What `espalier schedule` found, and its forms of output. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/cli/schedule_arguments.hpp"
#include "planner/core/pipeline/simulate.hpp"

namespace espalier::cli {

struct ScheduleRow {
  std::string name;
  pipeline::Schedule schedule;
  pipeline::Simulation result;
  double stage_activation = 1;  // of the first rank's chunks on one micro-batch: the unit of peaks in the reports
  bool fits = true;             // in the memory of every rank
  // Of a searched schedule: the fastest of the known ones with the same chunks that fits, and its time. Empty: none.
  std::string best_generator;
  double generator_time = 0;

  int chunks_per_rank() const;  // of the rank that has most
};

nlohmann::json schedule_json(const ScheduleRow& row);
// A line for each row, and a legend.
std::string schedule_table(const std::vector<ScheduleRow>& rows, bool limited);
// A bar for each rank.
std::string schedule_drawing(const ScheduleRow& row);
std::string schedule_drawing_legend();
// One drawing below the other, with the same scale of time.
std::string schedule_svg(const std::vector<ScheduleRow>& rows);

}  // namespace espalier::cli
