// The torch that the runtime was built with.
#pragma once

#include <string>

namespace espalier::torchrt {

std::string torch_version();

}  // namespace espalier::torchrt
