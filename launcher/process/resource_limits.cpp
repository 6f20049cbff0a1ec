#include "launcher/process/resource_limits.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace espalier::launcher {

std::vector<std::int64_t> resource_limits() {
  std::vector<std::int64_t> limits;
  for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) break;
    limits.push_back(limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(limit.rlim_cur));
  }
  return limits;
}

void allow_many_descriptors() {
  constexpr rlim_t kMany = 1 << 16;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kMany) return;
  limit.rlim_cur = std::min(limit.rlim_max, kMany);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace espalier::launcher
