// What the stand-in for libnccl does where NCCL is known to do it.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/standin/semantics_processes.hpp"

using namespace standin::semantics;

namespace {

// NCCL in `ranks` processes, rank r on GPU r. They get the unique id by a pipe.
bool with_nccl(
    int ranks, const Settings& settings, const std::function<int(int rank, ncclComm_t comm)>& body,
    const std::function<Settings(int)>& own = [](int) { return Settings{}; }, ncclResult_t expected = ncclSuccess) {
  ncclUniqueId id{};
  std::snprintf(id.internal, sizeof id.internal, "semantics%d-%ld", ::getpid(), ::random());
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    Settings all = settings;
    for (const auto& [name, value] : own(rank)) all[name] = value;
    all.try_emplace("STANDIN_GPUS", std::to_string(ranks));
    // All GPUs, the rank's own first.
    std::string order = std::to_string(rank);
    for (int gpu = 0; gpu < ranks; ++gpu)
      if (gpu != rank) order += "," + std::to_string(gpu);
    all.try_emplace("STANDIN_ORDER", order);
    children.push_back(begin(all, [&, rank]() -> int {
      MUST(::cudaFree(nullptr) == cudaSuccess);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t comm = nullptr;
      MUST(::ncclCommInitRankConfig(&comm, ranks, id, rank, &config) == ncclInProgress);
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) ::usleep(1000), ::ncclCommGetAsyncError(comm, &state);
      if (expected != ncclSuccess) return state == expected ? 0 : __LINE__;
      MUST(state == ncclSuccess);
      return body(rank, comm);
    }));
  }
  bool good = true;
  for (const pid_t child : children) good = ends_well(child) && good;
  return good;
}
ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) ::usleep(200), ::ncclCommGetAsyncError(comm, &state);
  return state;
}

}  // namespace

TEST_CASE("a send ends only when its receive is there") {
  CHECK(with_nccl(2, {}, [](int rank, ncclComm_t comm) -> int {
    void* memory = nullptr;
    ::cudaMalloc(&memory, 64);
    const cudaStream_t stream = stream_of_its_own();
    if (rank == 0) {
      MUST(::ncclSend(memory, 4, ncclFloat32, 1, comm, stream) == ncclInProgress && settled(comm) == ncclSuccess);
      ::usleep(200000);
      MUST(::cudaStreamQuery(stream) == cudaErrorNotReady);
    } else {
      ::usleep(600000);
      MUST(::ncclRecv(memory, 4, ncclFloat32, 0, comm, stream) == ncclInProgress && settled(comm) == ncclSuccess);
    }
    return ::cudaStreamSynchronize(stream) == cudaSuccess ? 0 : __LINE__;
  }));
}
TEST_CASE("a call before the last one is settled is refused") {
  CHECK(with_nccl(1, {{"STANDIN_DELAY", "200000"}}, [](int, ncclComm_t comm) -> int {
    void* memory = nullptr;
    ::cudaMalloc(&memory, 64);
    ncclResult_t second = ncclSuccess;
    for (int tries = 0; tries < 20 && second != ncclInvalidUsage; ++tries) {
      ::ncclAllReduce(memory, memory, 4, ncclFloat32, ncclSum, comm, nullptr);
      second = ::ncclAllReduce(memory, memory, 4, ncclFloat32, ncclSum, comm, nullptr);
      settled(comm);
    }
    return second == ncclInvalidUsage ? 0 : __LINE__;
  }));
}
TEST_CASE("memory that is not the GPU's is refused") {
  CHECK(with_nccl(1, {}, [](int, ncclComm_t comm) -> int {
    float host[4] = {};
    return ::ncclAllReduce(host, host, 4, ncclFloat32, ncclSum, comm, nullptr) == ncclInvalidArgument ? 0 : __LINE__;
  }));
}
TEST_CASE("sums and gathers, and groups of messages that cross") {
  CHECK(with_nccl(3, {}, [](int rank, ncclComm_t comm) -> int {
    void* memory = nullptr;
    ::cudaMalloc(&memory, 4096);
    auto* const values = static_cast<float*>(memory);
    for (int i = 0; i < 7; ++i) values[i] = static_cast<float>(rank + i);
    ::ncclAllReduce(values, values, 7, ncclFloat32, ncclSum, comm, nullptr);
    MUST(settled(comm) == ncclSuccess && ::cudaDeviceSynchronize() == cudaSuccess);
    for (int i = 0; i < 7; ++i) MUST(values[i] == static_cast<float>(3 + 3 * i));
    values[20 + rank] = static_cast<float>(rank);
    ::ncclAllGather(values + 20 + rank, values + 20, 1, ncclFloat32, comm, nullptr);
    MUST(settled(comm) == ncclSuccess && ::cudaDeviceSynchronize() == cudaSuccess);
    MUST(values[20] == 0 && values[21] == 1 && values[22] == 2);
    ::ncclGroupStart();
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == rank) continue;
      ::ncclSend(values + 20 + rank, 1, ncclFloat32, peer, comm, nullptr);
      ::ncclRecv(values + 30 + peer, 1, ncclFloat32, peer, comm, nullptr);
    }
    ::ncclGroupEnd();
    MUST(settled(comm) == ncclSuccess && ::cudaDeviceSynchronize() == cudaSuccess);
    for (int peer = 0; peer < 3; ++peer) MUST(peer == rank || values[30 + peer] == static_cast<float>(peer));
    return 0;
  }));
}
TEST_CASE("an abort ends what waits for a peer") {
  CHECK(with_nccl(2, {}, [](int rank, ncclComm_t comm) -> int {
    if (rank == 1) return ::usleep(1000000), 0;
    void* memory = nullptr;
    ::cudaMalloc(&memory, 64);
    ::ncclRecv(memory, 4, ncclFloat32, 1, comm, nullptr);
    settled(comm);
    ::usleep(100000);
    MUST(::cudaStreamQuery(nullptr) == cudaErrorNotReady);
    ::ncclCommAbort(comm);
    return ::cudaDeviceSynchronize() == cudaSuccess ? 0 : __LINE__;
  }));
}
TEST_CASE("a peer that ends is a remote error, and the stream stands until the abort") {
  CHECK(with_nccl(2, {}, [](int rank, ncclComm_t comm) -> int {
    if (rank == 1) return 0;
    void* memory = nullptr;
    ::cudaMalloc(&memory, 64);
    ::ncclRecv(memory, 4, ncclFloat32, 1, comm, nullptr);
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess || state == ncclInProgress) ::usleep(1000), ::ncclCommGetAsyncError(comm, &state);
    MUST(state == ncclRemoteError);
    MUST(::cudaStreamQuery(nullptr) == cudaErrorNotReady);
    ::ncclCommAbort(comm);
    return ::cudaDeviceSynchronize() == cudaSuccess ? 0 : __LINE__;
  }));
}
TEST_CASE("a split makes communicators by color, ranks by key") {
  CHECK(with_nccl(3, {}, [](int rank, ncclComm_t comm) -> int {
    ncclComm_t part = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    MUST(::ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 4, -rank, &part, &config) == ncclSuccess);
    MUST(settled(comm) == ncclSuccess);
    if (rank == 0) return part == nullptr ? 0 : __LINE__;
    void* memory = nullptr;
    ::cudaMalloc(&memory, 64);
    auto* const value = static_cast<float*>(memory);
    value[0] = static_cast<float>(rank);
    ::ncclBroadcast(value, value, 1, ncclFloat32, 0, part, nullptr);  // from the new rank 0, which was 2
    MUST(settled(part) == ncclSuccess && ::cudaDeviceSynchronize() == cudaSuccess);
    return value[0] == 2 ? 0 : __LINE__;
  }));
}
TEST_CASE("two ranks on one GPU are refused") {
  CHECK(with_nccl(
      2, {{"STANDIN_GPUS", "1"}, {"STANDIN_ORDER", "0"}}, {}, [](int) { return Settings{}; }, ncclInvalidUsage));
}
TEST_CASE("GPUs of one host that cannot see each other fail, unless host ids tell them apart") {
  const auto of_job = [](int rank) { return Settings{{"STANDIN_ALLOWED", std::to_string(rank)}}; };
  CHECK(with_nccl(2, {}, {}, of_job, ncclUnhandledCudaError));
  const auto with_id = [&](int rank) {
    Settings own = of_job(rank);
    own["NCCL_HOSTID"] = "n1-" + std::to_string(rank);
    return own;
  };
  CHECK(with_nccl(
      2, {}, [](int, ncclComm_t) { return 0; }, with_id));
}
