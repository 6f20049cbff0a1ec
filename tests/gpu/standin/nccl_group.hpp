// What calls on the stand-in for libnccl ask for, alone or between ncclGroupStart and ncclGroupEnd.
#pragma once

#include <nccl.h>

#include <functional>
#include <initializer_list>
#include <utility>

#include "tests/gpu/standin/nccl_mesh.hpp"

namespace standin {

using Operation = std::function<ncclResult_t(Mesh&)>;

// A call on a communicator: one message, or a collective where `transfer` is null. `memory` must be the GPU's. It is
// launched at once, or at the end of the group that it is in.
ncclResult_t ask(const char* call, ncclComm_t comm, cudaStream_t stream,
                 std::initializer_list<std::pair<const void*, std::size_t>> memory, const Transfer* transfer,
                 Operation collective);

}  // namespace standin
