// Messages and collectives of the stand-in for libnccl.
#include <nccl.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/gpu/standin/nccl_communicator.hpp"
#include "tests/gpu/standin/nccl_group.hpp"
#include "tests/gpu/standin/nccl_reduce.hpp"
#include "tests/gpu/standin/settings.hpp"

using namespace standin;

namespace {

char* bytes_of(const void* memory) { return static_cast<char*>(const_cast<void*>(memory)); }

// Every rank's values of this rank's part, added to its own. The first is another one on each rank, as in NCCL's rings.
ncclResult_t reduce_part(Mesh& mesh, const std::function<Transfer(int)>& part_of, char* own, std::size_t count,
                         ncclDataType_t type, ncclRedOp_t op) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::vector<char>> values(static_cast<std::size_t>(mesh.size()), std::vector<char>(bytes));
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer == mesh.rank()) continue;
    transfers.push_back(part_of(peer));
    transfers.push_back({false, peer, values[static_cast<std::size_t>(peer)].data(), bytes});
  }
  const ncclResult_t found = mesh.run(transfers);
  if (found != ncclSuccess) return found;
  for (int i = 1; i < mesh.size(); ++i)
    reduce(own, values[static_cast<std::size_t>((mesh.rank() + i) % mesh.size())].data(), count, type, op);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  standin::count("messages", 1);
  standin::count("message_bytes", bytes);
  const Transfer transfer{true, peer, bytes_of(data), bytes};
  return ask("ncclSend", comm, stream, {{data, bytes}}, &transfer, {});
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const Transfer transfer{false, peer, bytes_of(data), bytes};
  return ask("ncclRecv", comm, stream, {{data, bytes}}, &transfer, {});
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t size = size_of(type);
  return ask("ncclAllReduce", comm, stream, {{from, count * size}, {to, count * size}}, nullptr, [=](Mesh& mesh) {
    if (from != to) std::memmove(to, from, count * size);
    const auto ranks = static_cast<std::size_t>(mesh.size());
    const auto part = [&](int rank) {
      const std::size_t first = count * static_cast<std::size_t>(rank) / ranks;
      const std::size_t end = count * (static_cast<std::size_t>(rank) + 1) / ranks;
      return Transfer{true, rank, bytes_of(to) + first * size, (end - first) * size};
    };
    const Transfer own = part(mesh.rank());
    if (const ncclResult_t code = reduce_part(mesh, part, own.data, own.bytes / size, type, op); code != ncclSuccess)
      return code;
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < mesh.size(); ++peer) {
      if (peer == mesh.rank()) continue;
      transfers.push_back({true, peer, own.data, own.bytes});
      const Transfer theirs = part(peer);
      transfers.push_back({false, peer, theirs.data, theirs.bytes});
    }
    return mesh.run(transfers);
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(comm->shared->size);
  return ask("ncclReduceScatter", comm, stream, {{from, ranks * bytes}, {to, bytes}}, nullptr, [=](Mesh& mesh) {
    char* const mine = bytes_of(from) + static_cast<std::size_t>(mesh.rank()) * bytes;
    if (to != mine) std::memmove(to, mine, bytes);
    const auto part = [&](int rank) {
      return Transfer{true, rank, bytes_of(from) + static_cast<std::size_t>(rank) * bytes, bytes};
    };
    return reduce_part(mesh, part, bytes_of(to), count, type, op);
  });
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return ask("ncclReduce", comm, stream, {{from, bytes}}, nullptr, [=](Mesh& mesh) {
    if (mesh.rank() != root) return mesh.run({{true, root, bytes_of(from), bytes}});
    if (to != from) std::memmove(to, from, bytes);
    return reduce_part(
        mesh,
        [&](int rank) {
          return Transfer{true, rank, nullptr, 0};
        },
        bytes_of(to), count, type, op);
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(comm->shared->size);
  return ask("ncclAllGather", comm, stream, {{from, bytes}, {to, ranks * bytes}}, nullptr, [=](Mesh& mesh) {
    char* const mine = bytes_of(to) + static_cast<std::size_t>(mesh.rank()) * bytes;
    if (mine != from) std::memmove(mine, from, bytes);
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < mesh.size(); ++peer) {
      if (peer == mesh.rank()) continue;
      transfers.push_back({true, peer, mine, bytes});
      transfers.push_back({false, peer, bytes_of(to) + static_cast<std::size_t>(peer) * bytes, bytes});
    }
    return mesh.run(transfers);
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return ask("ncclBroadcast", comm, stream, {{to, bytes}}, nullptr, [=](Mesh& mesh) {
    if (mesh.rank() != root) return mesh.run({{false, root, bytes_of(to), bytes}});
    if (to != from) std::memmove(to, from, bytes);
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < mesh.size(); ++peer)
      if (peer != root) transfers.push_back({true, peer, bytes_of(from), bytes});
    return mesh.run(transfers);
  });
}

}  // extern "C"
