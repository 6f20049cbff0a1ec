#include "torchrt/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace espalier::torchrt {

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace espalier::torchrt
