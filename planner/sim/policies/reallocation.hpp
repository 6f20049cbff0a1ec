// From counts of GPUs to acts: who gets which GPUs, with which plan, and whom it does not concern.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/topology/affinity_order.hpp"
#include "planner/sim/policies/gpu_pools.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

// What a job holds in a pool.
struct HeldGpus {
  int pool = -1;  // index; -1: nothing
  int gpus = 0;
  std::vector<std::vector<int>> on;  // GPU indices by the pool's nodes; empty where it holds nothing at all
};
// One per job of the view, from who owns the GPUs.
std::vector<HeldGpus> held_in_pools(const SimulatedView& view, const std::vector<GpuPool>& pools);

struct Wanted {
  int pool = 0;
  int gpus = 0;  // 0: it waits
};

// A sketch for the job on exactly these pieces; nullopt: it cannot run on them.
using MakeSketch = std::function<std::optional<PlanSketch>(const SimulatedJobState&, const std::vector<Piece>&)>;

// One `wanted` and one `held` per job of the view. Jobs that want what they hold stay as they are, unless a larger one
// needs their place (packing.hpp); jobs that are being redeployed stay in any case. Who finds no place, or has no plan
// there, waits.
std::vector<Act> reallocate(const SimulatedView& view, const std::vector<GpuPool>& pools,
                            const std::vector<HeldGpus>& held, const std::vector<Wanted>& wanted,
                            const MakeSketch& make_sketch);

}  // namespace espalier::sim
