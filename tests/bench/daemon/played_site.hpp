// The nodes and jobs that espalierd sees (site_table.h), and who holds which GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "tests/bench/daemon/site_table.h"

namespace espalier::bench {

class PlayedSite {
 public:
  // Makes the table at `path`. `gpus`: a multiple of 8. Throws Error.
  PlayedSite(const std::string& path, int gpus);
  ~PlayedSite();
  PlayedSite(const PlayedSite&) = delete;
  PlayedSite& operator=(const PlayedSite&) = delete;

  // Of one of `users` users, from `first_user` on, who take turns.
  JobId submit(std::uint32_t first_user, std::uint32_t users, int gpus);
  // Starts a pending job on idle GPUs: at most 8 on one node, the fullest that has room; more on whole nodes. Its
  // holdings; nullopt: there is no room.
  std::optional<std::vector<Holding>> start(JobId job);
  // An extension of `anchor` on so many idle GPUs of the node; nullopt: they are not idle.
  std::optional<Holding> extend(JobId anchor, std::uint32_t uid, const std::string& node, int gpus);
  // Ends the job or extension: its GPUs are idle. What it held.
  std::vector<Holding> end(JobId job);

  int idle_gpus() const { return idle_; }
  int nodes() const { return static_cast<int>(table_->nodes); }
  // As topology.conf has it: racks of 16 nodes below one spine.
  std::string topology() const;

 private:
  static constexpr double kKept = 300;  // seconds that Slurm tells of an ended job (MinJobAge)
  class Locked;
  site_job& fresh();
  site_job& find(JobId job);
  std::vector<Holding> hold(site_job& job, const std::vector<std::pair<int, unsigned>>& gpus);

  site_table* table_ = nullptr;
  std::vector<unsigned> busy_;  // a bit for each GPU of a node
  int idle_ = 0;
  JobId next_ = 1;
};

}  // namespace espalier::bench
