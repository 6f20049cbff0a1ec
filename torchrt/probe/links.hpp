// Measures messages and all-reduces between ranks. Collective over the world: every rank makes the
// same calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "torchrt/comm/fabric.hpp"

namespace espalier::torchrt {

class LinkProbe {
 public:
  // All three must outlive the probe. Allocates its buffers: 3 times largest() bytes. Throws Error.
  LinkProbe(World& world, Device& device, Fabric& fabric);

  std::size_t largest() const { return largest_; }

  // Messages of `bytes` from each first rank to its second, all at once. Returns bytes/s of each,
  // in their order, the same on all ranks.
  std::vector<double> stream(const std::vector<std::pair<int, int>>& ways, std::size_t bytes);

  // Sums of `bytes` in `group`, which the ranks with `measures` have. `activations`: in the order
  // of ranks and in the activations' type. Returns seconds of one, the longest of all ranks.
  double reduce(Group* group, bool measures, std::size_t bytes, bool activations);

 private:
  double receive(int from, std::size_t bytes, int count);
  double largest_of(double value);

  World& world_;
  Device& device_;
  Transport& transport_;
  std::size_t largest_;
  std::unique_ptr<Allocation> memory_;
};

}  // namespace espalier::torchrt
