// Whether bytes are still what they were: XXH3, not against intent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::torchrt {

std::uint64_t checksum(const void* data, std::size_t bytes);

}  // namespace espalier::torchrt
