// The waiting tasks of a job array. slurmctld has one record for all tasks that have not been looked at, and one for
// each that runs. Pure.
#pragma once

#include <slurm/slurm.h>

#include <cstdint>
#include <map>
#include <string_view>

namespace espalier {

// More tasks of one array do not count: what a user writes must cost nothing.
inline constexpr int kMostArrayTasks = 4096;

// Tasks that `text` names: "0-99%5", "1,3,5-7:2". Slurm cuts it to 64 bytes, with "..." at the end: what is whole
// counts.
int named_tasks(std::string_view text);

// How many tasks of each array run, by array_job_id.
using RunningTasks = std::map<std::uint32_t, int>;
void count_running(const slurm_job_info_t& job, RunningTasks& running);

// How many jobs like `job`'s record wait and may start now: 1 for what is no array's record. 0: the array has as many
// running tasks as its user allows at a time.
int waiting_tasks(const slurm_job_info_t& job, const RunningTasks& running);

}  // namespace espalier
