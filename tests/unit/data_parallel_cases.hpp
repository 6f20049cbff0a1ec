// Jobs of programs whose model the planner does not know, on the first of two nodes of 8 GPUs.
#pragma once

#include <vector>

#include "planner/core/data_parallel.hpp"
#include "planner/core/schedule/first_plan.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/core/topology/from_view.hpp"

namespace espalier::test {

inline Site two_nodes_of_8() {
  ClusterView view;
  for (const char* name : {"n1", "n2"}) {
    NodeView& node = view.nodes.emplace_back();
    node.name = name;
    node.gpu_type = "h100";
    node.gpu_owner.assign(8, 0);
  }
  return site_from_view(view, {}).site;
}

// Job 7 on `gpus` GPUs of n1. `units`: the sizes that its replicas may have, the preferred one first.
inline ElasticJob data_job(int gpus, int global_batch, const std::vector<int>& units = {1}) {
  ElasticJob job;
  job.id = 7;
  job.accuracy = Accuracy::relaxed;
  job.model = data_parallel_shape(global_batch, units, "train.py");
  job.parallel = data_parallel_limits(units);
  job.max_gpus = 16;
  job.anchor = {{7, "n1", {}}};
  for (int i = 0; i < gpus; ++i) job.anchor[0].gpus.push_back(i);
  return job;
}

// The plan with which the job starts when nothing was measured.
inline Plan first_of(const ElasticJob& job) {
  const Site site = two_nodes_of_8();
  return first_plan(job, site, sheet_for(job, site), RankOrder::given).plan;
}

}  // namespace espalier::test
