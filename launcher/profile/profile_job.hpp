// Profile jobs: what `espalier profile` submits for a job that waits, and what runs in them.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/config.hpp"

namespace espalier::launcher {

struct ProfileRequest {
  JobId job = 0;              // that waits
  int max_gpus = 0;           // MAX of its --elastic; 0: the site's limit
  std::string accuracy = {};  // of its --elastic; empty: not given
  std::vector<std::string> program;
};

// What all questions of the request tell of it.
Json arguments_of(const ProfileRequest& request);

// Asks espalierd one question, by TCP and MUNGE. Throws Error with its refusal, or when it cannot be reached in 5 s.
Json ask_planner(const wire::Config& config, const std::vector<uid_t>& planner_uids, const std::string& what,
                 const Json& arguments);

// Submits a profile job at `place`, an entry of stage_places' reply, with this process's environment and folder. It
// starts `delay_seconds` from now at the earliest. `cluster`: this one's name. Returns its id. Throws Error.
JobId submit_profile_job(const wire::Config& config, const std::string& cluster, const ProfileRequest& request,
                         const Json& place, int delay_seconds);

// `espalier-launch profile`; `words`: what follows. Returns the exit code. Throws Error.
int profile(const std::vector<std::string>& words);

// What the profile job runs: measures stages until there are none left, or the job waits no longer. Preempted, it
// submits another profile job, and ends. Returns the exit code. Throws Error.
int run_profile_job(const ProfileRequest& request);

}  // namespace espalier::launcher
