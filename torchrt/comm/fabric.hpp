// What connects the ranks of the world on device memory: MPI in espalier-train, NCCL in espalier-train-cuda.
#pragma once

#include <memory>
#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/comm/world.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// One thread; throws Error. Goes after everything made with it and before its World.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Every rank of the world calls it equally often. `members`: ranks of the world, ascending, this one among them; each
  // of them names the same, and the groups of one call do not overlap. Null when the rank is alone.
  virtual std::unique_ptr<Group> group(const std::vector<int>& members) = 0;
  virtual Transport& transport() = 0;
};

// Returns before everything is connected; the first use waits. `world` and `device` outlive it. Collective; throws
// Error on all ranks alike when only some of their devices are GPUs.
std::unique_ptr<Fabric> make_fabric(World& world, Device& device);

}  // namespace espalier::torchrt
