// The state of jobs and GPUs at one moment, as the metrics tell it. The loop makes it from the planner; the threads
// that answer scrapes only read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/daemon/planner.hpp"

namespace espalier {

struct JobFigures {
  JobId id = 0;
  std::uint32_t uid = 0;
  int anchor_gpus = 0, lent_gpus = 0;
  int generation = 0;
  std::int64_t step = 0;
  double step_seconds = 0;       // 0: not measured yet
  double tokens_per_second = 0;  // 0: not known
};

struct ClusterFigures {
  static constexpr std::size_t kPhases = static_cast<std::size_t>(JobPhase::ending) + 1;
  bool slurm_answers = false;
  double snapshot_time = 0;                 // of Slurm's last answer, seconds since the epoch; 0: none yet
  std::array<std::size_t, kPhases> jobs{};  // elastic jobs by JobPhase
  std::size_t connected = 0, held = 0;      // of these jobs
  std::size_t waiting_jobs = 0;             // jobs of any kind that wait for GPUs
  std::int64_t wanted_gpus = 0;             // what they ask for
  // GPUs by what they do. Each GPU that Slurm lists counts once.
  // lent: extensions. anchor: own GPUs of elastic jobs. other: GPUs of other jobs.
  // idle: free, and may be lent. freeing: of an ended job, free soon. closed: free, on a node that takes no extension.
  std::size_t lent = 0, anchor = 0, other = 0, idle = 0, freeing = 0, closed = 0;
  std::size_t unfit = 0;          // GPUs on which workers of a running job died again and again, or that have errors
  std::int64_t store_bytes = 0;   // text in the decision store
  std::vector<JobFigures> rows;   // the jobs with most GPUs, by id. Empty where jobs are private
  std::size_t rows_left_out = 0;  // further jobs
};

// `most_rows`: jobs that get figures of their own. Costs one pass over jobs and nodes.
ClusterFigures look(Planner& planner, std::size_t most_rows);

}  // namespace espalier
