// Turns counts of GPUs into acts: decides which job gets which GPUs with which plan. Jobs that stay
// as they are get no act.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/grid/gpu_pools.hpp"
#include "planner/core/topology/affinity_order.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

// The GPUs that a job holds in a pool.
struct HeldGpus {
  int pool = -1;  // index; -1: nothing
  int gpus = 0;
  // GPU indices by the pool's nodes; empty if the job holds no GPU.
  std::vector<std::vector<int>> on;
};
// One per job of the view, from the owners of the GPUs.
std::vector<HeldGpus> held_in_pools(const SimulatedView& view, const std::vector<GpuPool>& pools);

struct Wanted {
  int pool = 0;
  int gpus = 0;  // 0: it waits
};

// Makes a sketch for the job on exactly these pieces. nullopt: it cannot run on them.
using MakeSketch = std::function<std::optional<PlanSketch>(const SimulatedJobState&, const std::vector<Piece>&)>;

// `wanted` and `held` have one entry per job of the view. Jobs that want as many GPUs as they hold
// stay as they are, unless a larger job needs their place (packing.hpp). Jobs that are being
// redeployed always stay. A job that finds no place, or has no plan there, waits.
std::vector<Act> reallocate(const SimulatedView& view, const std::vector<GpuPool>& pools,
                            const std::vector<HeldGpus>& held, const std::vector<Wanted>& wanted,
                            const MakeSketch& make_sketch);

}  // namespace espalier::sim
