// Connects the world's ranks to move device memory between them: MPI in espalier-train, NCCL in
// espalier-train-cuda.
#pragma once

#include <memory>
#include <vector>

#include "torchrt/comm/group.hpp"
#include "torchrt/comm/world.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// For one thread. Throws Error. Destroy it after everything made with it and before its World.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Every rank of the world must call it equally often. `members` are ranks of the world in
  // ascending order, this rank included. All members name the same ranks. The groups of one call do
  // not overlap. Returns null when the rank is alone.
  virtual std::unique_ptr<Group> group(const std::vector<int>& members) = 0;
  virtual Transport& transport() = 0;
};

// Returns before all ranks are connected; the first use waits for that. `world` and `device` must
// outlive the fabric. `ordered`: Group::sum() adds in the members' order; else a backend may add in
// any order if that is faster. Collective. Throws Error on all ranks when only some of them have a
// GPU.
std::unique_ptr<Fabric> make_fabric(World& world, Device& device, bool ordered);

}  // namespace espalier::torchrt
