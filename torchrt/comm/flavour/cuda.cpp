// The CUDA flavour's choice; where the device turned out to be the processor, the CPU's.
#include "torchrt/comm/mpi_fabric.hpp"
#include "torchrt/comm/nccl_fabric.hpp"
#include "torchrt/model/ordered_sum.hpp"

namespace espalier::torchrt {

std::unique_ptr<Fabric> make_fabric(World& world, Device& device) {
  if (device.kind() == DeviceKind::cpu) return make_mpi_fabric();
  return make_nccl_fabric(world, ordered_sum);
}

}  // namespace espalier::torchrt
