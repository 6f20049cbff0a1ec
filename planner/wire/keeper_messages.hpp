// Messages between a keeper and its launcher that say more than heartbeats. See messages.hpp for how they become
// frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/wire/messages.hpp"

namespace espalier::wire {

// From the launcher of a movable job to some keepers of its base, whenever it changes: what the next launcher needs to
// go on with the state in the vaults, should this one be lost. They give it to the next launcher with their hello.
struct Continuation {
  static constexpr const char* type = "continuation";
  int restarts = 0;                  // how often Slurm had requeued the job when this launcher started
  std::int64_t number = 0;           // of this launcher's, ascending
  JobId base = 0;                    // on which it trains
  std::vector<std::string> program;  // with its arguments
  Description description;
  Accuracy accuracy = Accuracy::bitwise;
  int last_generation = 0;  // the highest number that a generation was given
  // The running generation, as a recovery names it. Absent: none has trained.
  std::optional<Assign::Source> source;
  GpuIslands gpu_islands = {};  // as the job's ranks have said. May be absent
  bool jobs_reach = false;      // likewise
};

// The first message of a keeper.
struct KeeperHello {
  static constexpr const char* type = "keeper";
  JobId job = 0;  // the extension's, the base's or the anchor's
  std::string node;
  bool extension = false;
  std::optional<Continuation> continuation = {};  // that an earlier launcher has sent it. May be absent
};

}  // namespace espalier::wire
