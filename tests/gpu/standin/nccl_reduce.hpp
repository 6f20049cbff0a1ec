// Sums and maxima of NCCL's types.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace standin {

std::size_t size_of(ncclDataType_t type);
// into[i] = into[i] op from[i]
void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op);

}  // namespace standin
