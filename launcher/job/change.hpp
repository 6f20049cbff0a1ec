// A change of the job's plan, as the launcher carries it out: what was decided, and when each of its phases has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/recovery/step_watch.hpp"
#include "launcher/world/generations.hpp"

namespace espalier::launcher {

// Lists of the pipeline's schedule, for the plan of the change that brings them.
struct Lists {
  std::string csv;       // planner/core/pipeline/csv.hpp
  double search_ms = 0;  // how long the search took
};

// What a change has led to, as it is at the commit: another change may be committed before this one is reported.
struct Committed {
  int generation = 0;
  Plan plan;
  std::int64_t sent_early = 0;  // bytes of state that had come before the pause
};

struct Change {
  Decision decision;
  std::map<std::string, std::chrono::steady_clock::time_point> at = {};  // phase ends, for the outcome
  std::string why_aborted = {};
  std::int64_t boundary = 0;
  bool load_begun = false;
  bool by_disk = false;                  // the state went through a checkpoint
  std::optional<Plan> in_place_of = {};  // the plan before, of a change in place
  std::map<std::string, double> load_phases_ms = {};
  std::optional<Lists> lists = {};          // of a change in place to lists that were searched
  std::optional<Committed> committed = {};  // without: it is still under way
};

// From the end of one phase to that of another; 0 where the change did not have both.
double milliseconds_between(const Change& change, const std::string& from, const std::string& to);

// What the planner is told of a change that has ended now. `result`: as in outcome_of().
wire::Outcome outcome_now(const JobContext& context, const Generations& generations, const StepWatch& steps,
                          const Decision& decision, const std::string& result);

}  // namespace espalier::launcher
