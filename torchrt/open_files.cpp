#include "torchrt/open_files.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace espalier::torchrt {

void allow_many_files() {
  constexpr rlim_t kMost = 1 << 20;  // some programs close every number up to the limit, one by one
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kMost) return;
  limit.rlim_cur = std::min(limit.rlim_max, kMost);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace espalier::torchrt
