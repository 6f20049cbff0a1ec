// The jobs of one decision of the policy `arena`, and what is kept of them between decisions. Internal to the policy.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "planner/core/schedule/arena/arena_member.hpp"
#include "planner/core/schedule/known_jobs.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

class ArenaMembers {
 public:
  explicit ArenaMembers(const SchedulerOptions& options) : options_(options) {}

  // The running jobs of `input`, sorted by id. `weighed` gets those that cannot be scored. The members point into
  // `input` and this object, until the next call.
  std::vector<ArenaMember> enter(const PlanningInput& input, std::vector<Weighed>& weighed);
  const std::shared_ptr<const Site>& site() const { return site_; }  // of the last call
  const std::vector<GpuPool>& pools() const { return pools_; }
  // Samples per second that the grid estimates, scaled by what was measured. 0: impossible.
  double throughput(const ArenaMember& member, const PlanningInput& input, int pool, int gpus) const;

 private:
  void turn_to(const PlanningInput& input);
  ArenaMember member(const ElasticJob& job, VirtualJob& known, const PlanningInput& input);
  ProxyBook& book_of(const VirtualJob& job);
  std::string why_not(const ElasticJob& job, const PlanningInput& input) const;

  const SchedulerOptions& options_;
  std::shared_ptr<const Site> site_;
  std::vector<GpuPool> pools_;
  StageBooks stage_books_;
  KnownJobs known_;
  std::vector<std::shared_ptr<ProxyBook>> books_, used_;  // of the last decision, and of this one
};

}  // namespace espalier
