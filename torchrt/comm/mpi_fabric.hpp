// All communication over MPI, on host memory.
#pragma once

#include "torchrt/comm/fabric.hpp"

namespace espalier::torchrt {

std::unique_ptr<Fabric> make_mpi_fabric();

}  // namespace espalier::torchrt
