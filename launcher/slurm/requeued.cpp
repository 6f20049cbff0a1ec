#include "launcher/slurm/requeued.hpp"

#include "launcher/slurm/slurm.hpp"

namespace espalier::launcher {

bool has_been_requeued(JobId job, int restarts) {
  const auto seen = load_job(job);
  return seen && seen->restarts > restarts;
}

}  // namespace espalier::launcher
