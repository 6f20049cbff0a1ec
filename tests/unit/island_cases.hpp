// Jobs that have GPUs of several Slurm jobs on one node, for tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "planner/core/schedule/job_site.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "tests/unit/schedule_cases.hpp"

namespace espalier::test {

inline std::shared_ptr<Site> site_of(int nodes, int gpus) {
  auto site = std::make_shared<Site>();
  site->hardware.types = {{"h100", 989, 80e9, 0}};
  site->hardware.kinds = {{100e6, 140e6, 1e6, 0}};
  for (int n = 1; n <= nodes; ++n)
    site->topology.add_node("n" + std::to_string(n), 0, std::vector<std::int16_t>(static_cast<std::size_t>(gpus), 0),
                            {"spine", "leaf1"});
  return site;
}

// Much of its step is communication.
inline JobCoefficients talkative() {
  JobCoefficients job;
  job.layers = 8;
  job.global_batch = 32;
  job.tp_degrees = {1, 2, 4, 8};
  job.activ_bytes = 4e6;
  job.param_bytes = 2e8;
  job.gpu = {{1, 2, 0.1, 1.5, false, false, false, false}};
  return job;
}

inline ElasticJob relaxed_job(const std::vector<int>& gpus, Plan plan) {
  ElasticJob one = job(10, "n1", gpus, 16);
  one.accuracy = Accuracy::relaxed;
  one.parallel = {};
  one.model.global_batch = 32;
  one.plan = std::move(plan);
  return one;
}

// The Slurm job of each GPU: of the job's holdings, else the one that it would get.
inline JobId job_of(const ElasticJob& job, const GpuId& gpu) {
  for (const auto* holdings : {&job.anchor, &job.extensions})
    for (const Holding& held : *holdings)
      if (held.node == gpu.node && std::find(held.gpus.begin(), held.gpus.end(), gpu.index) != held.gpus.end())
        return held.job;
  return 0;
}

inline void check_groups(const Plan& plan, const ElasticJob& job) {
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas) {
      std::set<std::pair<std::string, JobId>> servers;
      for (const GpuId& gpu : replica.gpus) servers.insert({gpu.node, job_of(job, gpu)});
      CAPTURE(describe(plan));
      CHECK(servers.size() == 1);
    }
}

}  // namespace espalier::test
