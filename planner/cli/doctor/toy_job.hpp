// The elastic job of `espalier doctor --run`: a training of less than a minute, from its submission to its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/doctor/facts.hpp"
#include "planner/cli/doctor/finding.hpp"

namespace espalier::cli::doctor {

inline constexpr const char* kToy = "espalier-toy";

struct ToyJob {
  std::string program;    // kToy or espalier-train, as the nodes find it
  std::string folder;     // where a folder is made that the nodes see, too
  std::string partition;  // empty: Slurm's default
  std::string gres = "gpu:1";
  int wait_seconds = 60;                // for its start
  std::vector<std::string> extra = {};  // options of salloc
};

// What was seen of the job. It is judged apart from its run, so that the judgement can be tested.
struct ToyRun {
  ToyJob job;
  std::uint32_t id = 0;           // 0: Slurm did not start it
  double waited = 0;              // seconds until it started, or until that was given up
  bool failed = false;            // with an exit code other than 0
  std::optional<Json> seen;       // espalierd's last answer about it while it ran
  std::string unseen;             // why espalierd did not answer
  int most_gpus = 0;              // that espalierd saw it train on
  long steps = 0, all_steps = 0;  // done, by the training's own metrics, and wanted
  std::string said;               // the last lines of salloc and the training
};

// Runs the job, and returns when nothing is left of it: its allocation is given back and its folder removed, also at a
// signal and when something is thrown. Throws Error when the job cannot be submitted at all, and at a signal.
ToyRun run_toy_job(const Facts& facts, const ToyJob& job);

// Whether the job started, reported to espalierd, grew, and ended. Pure.
std::vector<Finding> judge_run(const ToyRun& run);

}  // namespace espalier::cli::doctor
