#include "launcher/world/server/cuda_defaults.hpp"

#include "launcher/world/server/variables.hpp"

namespace espalier::launcher {

std::vector<std::string> with_cuda_defaults(const std::vector<std::string>& environment, bool one_job) {
  std::vector<std::string> defaults{"CUDA_DEVICE_MAX_CONNECTIONS=32"};
  if (!one_job) defaults.emplace_back("NCCL_MNNVL_ENABLE=0");
  return merged(defaults, environment);
}

}  // namespace espalier::launcher
