// A job that waits for GPUs, and the profile jobs that measure for it meanwhile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "tests/unit/daemon_cases.hpp"

namespace espalier::queue_cases {

using namespace espalier::test;

inline SlurmJob pending(JobId id, uid_t uid, int gpus, const std::string& comment = "") {
  SlurmJob one = slurm_job(id, uid, {}, comment);
  one.state = SlurmJobState::pending;
  one.wanted_gpus = gpus;
  return one;
}
inline SlurmJob profile_job(JobId id, uid_t uid, JobId of, const std::string& type, std::vector<Holding> holdings) {
  SlurmJob one = slurm_job(
      id, uid, holdings, "espalier:ext:" + std::to_string(of) + ":abc" + std::to_string(id) + " stage-profile:" + type);
  if (holdings.empty()) one.state = SlurmJobState::pending;
  return one;
}

// Job 30 (three GPUs, of uid 1000) waits. n1 has GPUs of h100, two of them held by job 10; n2 of a100, all idle.
inline SlurmSnapshot queue() {
  SlurmSnapshot slurm;
  slurm.time = 1000;
  slurm.slurm_user = 64030;
  slurm.cluster.nodes = {node("n1", 4), node("n2", 4, "leaf1", "a100")};
  run_job(slurm, slurm_job(10, 1001, {{10, "n1", {0, 1}}}));
  slurm.jobs[30] = pending(30, 1000, 3);
  WaitingJob entry;
  entry.id = 30;
  entry.gpus = 3;
  entry.only_nodes = {"n1"};
  slurm.cluster.waiting.push_back(entry);
  return slurm;
}

inline std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace espalier::queue_cases
