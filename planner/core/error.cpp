#include "planner/core/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace espalier {

void invariant_broken(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "espalier: broken invariant at %s:%d: %s; please report this\n", file, line, condition);
  std::abort();
}

}  // namespace espalier
