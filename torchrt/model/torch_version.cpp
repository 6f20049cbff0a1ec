#include "torchrt/model/torch_version.hpp"

#include <torch/version.h>

namespace espalier::torchrt {

std::string torch_version() { return TORCH_VERSION; }

}  // namespace espalier::torchrt
