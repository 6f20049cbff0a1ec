// The version of the GPU driver: "570.86.15".
#pragma once

#include <string>

namespace espalier::torchrt {

// Reads `path`, a text of the driver's. Empty: there is no driver, or the text has no version.
std::string driver_version(const std::string& path = "/proc/driver/nvidia/version");

}  // namespace espalier::torchrt
