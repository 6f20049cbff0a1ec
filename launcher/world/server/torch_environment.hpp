// What a program of PyTorch's reads from the environment of a rank, so that torch.distributed.init_process_group()
// needs no arguments. The names are those of torchrun.
#pragma once

#include <string>
#include <vector>

#include "launcher/world/server/mpi_environment.hpp"

namespace espalier::launcher {

struct Meeting {
  std::string address;  // of rank 0's node
  int port = 0;
};

// "NAME=value". `device`: which of the GPUs that the process can see is its own; LOCAL_RANK, as programs choose their
// GPU by it.
std::vector<std::string> torch_environment(const RankPosition& position, int device, const Meeting& meeting);

}  // namespace espalier::launcher
