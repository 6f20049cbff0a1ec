#include "torchrt/comm/mpi_fabric.hpp"

namespace espalier::torchrt {

std::unique_ptr<Fabric> make_fabric(World&, Device&, bool) { return make_mpi_fabric(); }

}  // namespace espalier::torchrt
