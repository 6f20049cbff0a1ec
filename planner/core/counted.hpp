// Numbers of things in sentences for people.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

// "1 GPU", "2 GPUs"; "1 micro-batch" and "2 micro-batches" with the ending "es".
inline std::string counted(std::int64_t count, const std::string& thing, const std::string& ending = "s") {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : ending);
}

}  // namespace espalier
