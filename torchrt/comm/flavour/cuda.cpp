// The CUDA flavour's fabric: NCCL on GPUs, MPI where the device is the processor.
#include <climits>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/comm/mpi_fabric.hpp"
#include "torchrt/comm/nccl_fabric.hpp"
#include "torchrt/model/ordered_sum.hpp"

namespace espalier::torchrt {

std::unique_ptr<Fabric> make_fabric(World& world, Device& device, bool ordered) {
  const bool gpu = device.kind() == DeviceKind::cuda;
  const int with = world.minimum(gpu ? world.rank() : INT_MAX), without = world.minimum(gpu ? INT_MAX : world.rank());
  if (with != INT_MAX && without != INT_MAX)
    throw Error("CUDA: rank " + std::to_string(with) + " sees a GPU, rank " + std::to_string(without) +
                " sees none; give all ranks one, or start espalier-train to train on processors");
  if (!gpu) return make_mpi_fabric();
  if (!ordered) return make_nccl_fabric(world, {});
  return make_nccl_fabric(world,
                          [&device](std::span<const Buffer> parts, Buffer into) { ordered_sum(device, parts, into); });
}

}  // namespace espalier::torchrt
