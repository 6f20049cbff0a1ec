// The decision by which a job grows to a power of two of GPUs. Internal to the policy `arena`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/affinity.hpp"
#include "planner/core/schedule/arena/arena_member.hpp"
#include "planner/core/scheduler.hpp"

namespace espalier {

// For one decision. The arguments must outlive this object.
class ArenaGrowth {
 public:
  ArenaGrowth(const SchedulerOptions& options, const PlanningInput& input, const Site& site,
              const std::vector<GpuPool>& pools)
      : options_(options), input_(input), site_(site), pools_(pools) {}

  // On `gpus` GPUs in all, by idle ones of its own type from `supplies`, which are left as they are. nullopt: no place,
  // no plan, or not worth the redeployment; `why` says which, in one sentence.
  std::optional<Decision> to(ArenaMember& member, int gpus, std::vector<Supply> supplies, std::string& why) const;

 private:
  std::vector<NodeGpus> taken(const ArenaMember& member, int count, const std::vector<Supply>& supplies) const;
  std::optional<PlanSketch> plan_on(ArenaMember& member, const std::vector<Piece>& pieces, int gpus) const;

  const SchedulerOptions& options_;
  const PlanningInput& input_;
  const Site& site_;
  const std::vector<GpuPool>& pools_;
};

}  // namespace espalier
