// What the stand-in for libcudart does where CUDA is known to do it, and what the product makes of its errors.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

#include "planner/core/error.hpp"
#include "tests/gpu/standin/semantics_processes.hpp"
#include "torchrt/device/cuda_driver.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"

using namespace standin::semantics;

namespace {

template <class Function>
Function driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  ::cudaGetDriverEntryPointByVersion(name, &found, 10020, cudaEnableDefault, &how);
  return reinterpret_cast<Function>(found);
}
#define DRIVER(name) driver<decltype(&::name)>(#name)

CUmemAllocationProp on_gpu(int ordinal) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return wanted;
}
constexpr std::size_t kBlock = std::size_t{2} << 20;

CUresult create(CUmemGenericAllocationHandle& handle, std::size_t bytes, int ordinal = 0) {
  const CUmemAllocationProp wanted = on_gpu(ordinal);
  return DRIVER(cuMemCreate)(&handle, bytes, &wanted, 0);
}
CUresult open_to(CUdeviceptr memory, std::size_t bytes, int ordinal) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return DRIVER(cuMemSetAccess)(memory, bytes, &access, 1);
}
CUresult import(CUmemGenericAllocationHandle& handle, int fd) {
  return DRIVER(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

// Whether the product throws this for such an error.
template <class Thrown>
bool thrown(cudaError_t error) {
  try {
    espalier::torchrt::must_run(error, "a test");
  } catch (const Thrown&) {
    return true;
  } catch (const espalier::Error&) {
  }
  return false;
}

void send_fd(int channel, int fd) {
  char byte = 'x', space[CMSG_SPACE(sizeof fd)] = {};
  iovec data{&byte, 1};
  msghdr message{nullptr, 0, &data, 1, space, sizeof space, 0};
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  ::sendmsg(channel, &message, 0);
}
int receive_fd(int channel) {
  char byte = 0, space[CMSG_SPACE(sizeof(int))] = {};
  iovec data{&byte, 1};
  msghdr message{nullptr, 0, &data, 1, space, sizeof space, 0};
  if (::recvmsg(channel, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

// One process gives memory of its GPU to another.
bool between(const Settings& giver, const Settings& taker, const std::function<int(int fd)>& take) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return false;
  const pid_t first = begin(giver, [&] {
    MUST(::cudaFree(nullptr) == cudaSuccess);
    CUmemGenericAllocationHandle handle{};
    MUST(create(handle, kBlock) == CUDA_SUCCESS);
    int fd = -1;
    MUST(DRIVER(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
         CUDA_SUCCESS);
    send_fd(ends[0], fd);
    char done = 0;
    return ::read(ends[0], &done, 1) == 1 ? 0 : __LINE__;
  });
  const bool taken = in_process(taker, [&] {
    const int fd = receive_fd(ends[1]);
    MUST(fd >= 0);
    MUST(::cudaFree(nullptr) == cudaSuccess);
    return take(fd);
  });
  tell(ends[1], "d", 1);
  const bool given = ends_well(first);
  ::close(ends[0]);
  ::close(ends[1]);
  return taken && given;
}

const Settings kSlow{{"STANDIN_DELAY", "300000"}, {"STANDIN_SEED", "3"}};

}  // namespace

TEST_CASE("a copy on a stream is not done before it was waited for") {
  CHECK(in_process(kSlow, [] {
    void *from = nullptr, *to = nullptr;
    char seen = 0;
    MUST(::cudaMalloc(&from, 4096) == cudaSuccess && ::cudaMalloc(&to, 4096) == cudaSuccess);
    MUST(::cudaMemset(from, 7, 4096) == cudaSuccess && ::cudaDeviceSynchronize() == cudaSuccess);
    const cudaStream_t stream = stream_of_its_own();
    MUST(::cudaMemcpyAsync(to, from, 4096, cudaMemcpyDefault, stream) == cudaSuccess);
    MUST(static_cast<char*>(to)[0] == 0);
    MUST(::cudaStreamQuery(stream) == cudaErrorNotReady);
    MUST(::cudaStreamSynchronize(stream) == cudaSuccess);
    MUST(::cudaMemcpy(&seen, to, 1, cudaMemcpyDefault) == cudaSuccess);
    return seen == 7 ? 0 : __LINE__;
  }));
}
TEST_CASE("cudaMemcpy inside a GPU returns before it is done; to the host it does not") {
  CHECK(in_process(kSlow, [] {
    void *from = nullptr, *to = nullptr;
    ::cudaMalloc(&from, 4096), ::cudaMalloc(&to, 4096);
    ::cudaMemset(from, 7, 4096), ::cudaDeviceSynchronize();
    MUST(::cudaMemcpy(to, from, 4096, cudaMemcpyDefault) == cudaSuccess);
    MUST(static_cast<char*>(to)[0] == 0);
    char seen = 0;
    MUST(::cudaMemcpy(&seen, to, 1, cudaMemcpyDefault) == cudaSuccess);
    return seen == 7 ? 0 : __LINE__;
  }));
}
TEST_CASE("streams keep their order, and an event orders two of them") {
  CHECK(in_process(kSlow, [] {
    void* memory = nullptr;
    ::cudaMalloc(&memory, 8192);
    char* const data = static_cast<char*>(memory);
    const cudaStream_t one = stream_of_its_own(), two = stream_of_its_own();
    ::cudaMemset(data, 5, 1), ::cudaDeviceSynchronize();
    ::cudaMemcpyAsync(data + 1, data, 1, cudaMemcpyDefault, one);
    cudaEvent_t event = nullptr;
    MUST(::cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    MUST(::cudaEventQuery(event) == cudaSuccess);  // never recorded
    MUST(::cudaEventRecord(event, one) == cudaSuccess);
    MUST(::cudaEventQuery(event) == cudaErrorNotReady);
    MUST(::cudaStreamWaitEvent(two, event, 0) == cudaSuccess);
    ::cudaMemcpyAsync(data + 2, data + 1, 1, cudaMemcpyDefault, two);
    MUST(::cudaStreamSynchronize(two) == cudaSuccess);
    return data[2] == 5 ? 0 : __LINE__;
  }));
}
TEST_CASE("the default stream waits for blocking streams and they for it, not for others") {
  CHECK(in_process(kSlow, [] {
    void* memory = nullptr;
    ::cudaMalloc(&memory, 8192);
    char* const data = static_cast<char*>(memory);
    cudaStream_t blocking = nullptr;
    ::cudaStreamCreateWithFlags(&blocking, cudaStreamDefault);
    ::cudaMemset(data, 5, 1);
    ::cudaMemcpyAsync(data + 1, data, 1, cudaMemcpyDefault, blocking);
    ::cudaMemcpyAsync(data + 2, data + 1, 1, cudaMemcpyDefault, nullptr);
    MUST(::cudaStreamSynchronize(nullptr) == cudaSuccess);
    return data[2] == 5 ? 0 : __LINE__;
  }));
}
TEST_CASE("virtual memory: granularity, one mapping, and no access before it is given") {
  CHECK(in_process({}, [] {
    CUmemGenericAllocationHandle handle{};
    MUST(create(handle, kBlock) == CUDA_ERROR_NOT_INITIALIZED);
    MUST(::cudaFree(nullptr) == cudaSuccess);
    MUST(create(handle, 4096) == CUDA_ERROR_INVALID_VALUE);
    MUST(create(handle, kBlock) == CUDA_SUCCESS);
    CUdeviceptr at = 0;
    MUST(DRIVER(cuMemAddressReserve)(&at, kBlock, 0, 0, 0) == CUDA_SUCCESS);
    MUST(DRIVER(cuMemMap)(at, kBlock, 0, handle, 0) == CUDA_SUCCESS);
    MUST(DRIVER(cuMemMap)(at, kBlock, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    MUST(DRIVER(cuMemAddressFree)(at, kBlock) == CUDA_ERROR_INVALID_VALUE);
    MUST(open_to(at, kBlock, 0) == CUDA_SUCCESS);
    MUST(::cudaMemset(reinterpret_cast<void*>(at), 1, kBlock) == cudaSuccess);
    MUST(::cudaDeviceSynchronize() == cudaSuccess);
    MUST(DRIVER(cuMemUnmap)(at, kBlock) == CUDA_SUCCESS);
    return DRIVER(cuMemAddressFree)(at, kBlock) == CUDA_SUCCESS ? 0 : __LINE__;
  }));
}
TEST_CASE("using memory without access breaks the context for good") {
  CHECK(in_process({}, [] {
    ::cudaFree(nullptr);
    CUmemGenericAllocationHandle handle{};
    create(handle, kBlock);
    CUdeviceptr at = 0;
    DRIVER(cuMemAddressReserve)(&at, kBlock, 0, 0, 0), DRIVER(cuMemMap)(at, kBlock, 0, handle, 0);
    ::cudaMemset(reinterpret_cast<void*>(at), 1, kBlock);
    MUST(::cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    void* more = nullptr;
    MUST(::cudaMalloc(&more, 1) == cudaErrorIllegalAddress);
    return ::cudaGetLastError() == cudaErrorIllegalAddress && ::cudaGetLastError() == cudaErrorIllegalAddress
               ? 0
               : __LINE__;
  }));
}
TEST_CASE("choosing a GPU makes the context there") {
  CHECK(in_process({{"STANDIN_GPUS", "2"}, {"STANDIN_MEMORY", "100"}, {"STANDIN_CONTEXT", "200"}}, [] {
    MUST(::cudaSetDevice(2) == cudaErrorInvalidDevice);
    return ::cudaSetDevice(1) == cudaErrorMemoryAllocation ? 0 : __LINE__;
  }));
}

TEST_CASE("a context does not survive a fork") {
  CHECK(in_process({}, [] {
    ::cudaFree(nullptr);
    return in_process({}, [] { return ::cudaFree(nullptr) == cudaErrorInitializationError ? 0 : __LINE__; }) ? 0
                                                                                                             : __LINE__;
  }));
}
TEST_CASE("memory is full, for all processes together, and free again when they are killed") {
  const Settings small{{"STANDIN_MEMORY", "8388608"}};
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t other = begin(small, [&] {
    void* memory = nullptr;
    MUST(::cudaMalloc(&memory, 3 * kBlock) == cudaSuccess);
    tell(ready[1], "r", 1);
    for (;;) ::pause();
  });
  char said = 0;
  REQUIRE(::read(ready[0], &said, 1) == 1);
  CHECK(in_process(small, [] {
    void* memory = nullptr;
    MUST(::cudaMalloc(&memory, 2 * kBlock) == cudaErrorMemoryAllocation);
    std::size_t left = 0, whole = 0;
    MUST(::cudaMemGetInfo(&left, &whole) == cudaSuccess);
    return left == kBlock && whole == 4 * kBlock ? 0 : __LINE__;
  }));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  CHECK(in_process(small, [] {
    void* memory = nullptr;
    return ::cudaMalloc(&memory, 4 * kBlock) == cudaSuccess ? 0 : __LINE__;
  }));
}
TEST_CASE("a GPU of another Slurm job cannot be imported: 101") {
  const auto refused = [](int fd) {
    CUmemGenericAllocationHandle handle{};
    return import(handle, fd) == CUDA_ERROR_INVALID_DEVICE ? 0 : __LINE__;
  };
  CHECK(between({{"STANDIN_GPUS", "2"}, {"STANDIN_ALLOWED", "0"}}, {{"STANDIN_GPUS", "2"}, {"STANDIN_ALLOWED", "1"}},
                refused));
  CHECK(between({{"STANDIN_GPUS", "2"}, {"STANDIN_NODE", "1"}},
                {{"STANDIN_GPUS", "2"}, {"STANDIN_NODE", "1"}, {"CUDA_VISIBLE_DEVICES", "1"}}, refused));
}
TEST_CASE("memory of a GPU without peer access can be imported but not opened") {
  const Settings apart{{"STANDIN_GPUS", "2"}, {"STANDIN_PEERS", "none"}};
  CHECK(between(apart, apart, [](int fd) {
    CUmemGenericAllocationHandle handle{};
    MUST(import(handle, fd) == CUDA_SUCCESS);
    CUdeviceptr at = 0;
    DRIVER(cuMemAddressReserve)(&at, kBlock, 0, 0, 0), DRIVER(cuMemMap)(at, kBlock, 0, handle, 0);
    MUST(open_to(at, kBlock, 1) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    return open_to(at, kBlock, 0) == CUDA_SUCCESS ? 0 : __LINE__;
  }));
}
TEST_CASE("an IPC handle names a whole block, and ends with its maker") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  const pid_t maker = begin({}, [&] {
    void *first = nullptr, *second = nullptr;
    ::cudaMalloc(&first, 4096), ::cudaMalloc(&second, 4096);
    ::cudaMemset(first, 1, 4096), ::cudaMemset(second, 2, 4096), ::cudaDeviceSynchronize();
    cudaIpcMemHandle_t handle{};
    MUST(::cudaIpcGetMemHandle(&handle, second) == cudaSuccess);
    tell(ends[0], &handle, sizeof handle);
    for (;;) ::pause();
  });
  CHECK(in_process({}, [&] {
    cudaIpcMemHandle_t handle{};
    MUST(::read(ends[1], &handle, sizeof handle) == sizeof handle);
    void* mapped = nullptr;
    MUST(::cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
    MUST(static_cast<char*>(mapped)[0] == 1);  // the block's start, not the second piece
    ::kill(maker, SIGKILL);
    ::usleep(100000);
    return ::cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess ? 0 : __LINE__;
  }));
  ::waitpid(maker, nullptr, 0);
}
TEST_CASE("GPUs are counted as CUDA counts them, and told apart by their bus ids") {
  CHECK(in_process({{"STANDIN_GPUS", "3"}, {"STANDIN_ORDER", "2,0,1"}}, [] {
    char id[32] = {};
    MUST(::cudaDeviceGetPCIBusId(id, sizeof id, 0) == cudaSuccess && std::string(id) == "0000:03:00.0");
    int ordinal = -1;
    MUST(::cudaDeviceGetByPCIBusId(&ordinal, "0000:01:00.0") == cudaSuccess && ordinal == 1);
    return ::cudaDeviceGetByPCIBusId(&ordinal, "0000:09:00.0") == cudaErrorInvalidDevice ? 0 : __LINE__;
  }));
  CHECK(in_process({{"STANDIN_GPUS", "3"}, {"STANDIN_ORDER", "2,0,1"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, [] {
    char id[32] = {};
    MUST(::cudaDeviceGetPCIBusId(id, sizeof id, 0) == cudaSuccess);
    return std::string(id) == "0000:01:00.0" ? 0 : __LINE__;
  }));
}
TEST_CASE("errors come at the call and count that were asked for") {
  CHECK(in_process({{"STANDIN_FAULTS", "cudaMalloc@2=2,cudaMemset@1=214"}}, [] {
    void* memory = nullptr;
    MUST(::cudaMalloc(&memory, 64) == cudaSuccess && ::cudaMalloc(&memory, 64) == cudaErrorMemoryAllocation);
    MUST(::cudaMalloc(&memory, 64) == cudaSuccess);
    MUST(::cudaMemset(memory, 0, 64) == cudaErrorECCUncorrectable);
    return ::cudaDeviceSynchronize() == cudaErrorECCUncorrectable ? 0 : __LINE__;
  }));
}

TEST_CASE("an error is remembered until it is asked for; once it was thrown it is not left for the next call") {
  CHECK(in_process({{"STANDIN_FAULTS", "cudaMalloc@1=2,cudaMemset@1=700"}}, [] {
    void* memory = nullptr;
    const cudaError_t full = ::cudaMalloc(&memory, 64);
    MUST(full == cudaErrorMemoryAllocation && ::cudaPeekAtLastError() == full);
    MUST(thrown<espalier::torchrt::MemoryError>(full));
    MUST(::cudaGetLastError() == cudaSuccess);
    MUST(::cudaMalloc(&memory, 64) == cudaSuccess);
    // That of a broken context stays.
    const cudaError_t broken = ::cudaMemset(memory, 0, 64);
    MUST(thrown<espalier::torchrt::DeviceError>(broken));
    return ::cudaGetLastError() == broken ? 0 : __LINE__;
  }));
}
