#include <cstdlib>

#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace espalier::fuzz
