// The job and the cluster of `espalier plan`.
#include "planner/cli/plan_cluster_file.hpp"
#include "planner/cli/plan_job_file.hpp"
#include "planner/core/error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void plan_toml(std::string_view input) {
  const MemoryFile file(input);
  try {
    const cli::PlanJob job = cli::read_plan_job(file.path());
    require(job.shape.layers > 0 && job.min_gpus > 0 && job.min_gpus <= job.max_gpus);
  } catch (const Error&) {
  }
  try {
    const cli::PlanCluster cluster = cli::read_plan_cluster(file.path());
    require(!cluster.view.nodes.empty());
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
