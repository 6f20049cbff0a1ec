#include "launcher/world/server/cuda_defaults.hpp"

#include "launcher/world/server/variables.hpp"

namespace espalier::launcher {

std::vector<std::string> with_cuda_defaults(const std::vector<std::string>& environment) {
  return merged({"CUDA_DEVICE_MAX_CONNECTIONS=32"}, environment);
}

}  // namespace espalier::launcher
