// The soft resource limits of this process.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::launcher {

// In the form of Child::Traits::limits.
std::vector<std::int64_t> resource_limits();

// Raises the soft limit of open descriptors to 65,536, or to the hard limit where that is lower. Any thread. A launcher
// has a connection to each rank, keeper and rank server; a vault holds a descriptor for each unit of each rank on its
// node, in two generations. The process's children inherit the limit.
void allow_many_descriptors();

}  // namespace espalier::launcher
