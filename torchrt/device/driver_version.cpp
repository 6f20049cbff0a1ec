#include "torchrt/device/driver_version.hpp"

#include <cctype>
#include <fstream>

namespace espalier::torchrt {

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build ..."
std::string driver_version(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  for (int words = 0; words < 32 && in >> word; ++words) {
    if (word.size() > 32 || word.find('.') == std::string::npos) continue;
    bool digits = true;
    for (const char c : word) digits = digits && (c == '.' || std::isdigit(static_cast<unsigned char>(c)) != 0);
    if (digits) return word;
  }
  return "";
}

}  // namespace espalier::torchrt
