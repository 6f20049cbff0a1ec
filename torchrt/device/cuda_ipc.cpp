#include "torchrt/device/cuda_ipc.hpp"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/device/cuda_driver.hpp"

namespace espalier::torchrt {

namespace {

// An IPC handle names a whole block of the driver. Small allocations share a block. An allocation
// of whole blocks begins at its first block's start, so its handle names exactly its memory.
constexpr std::size_t kBlock = std::size_t{2} << 20;

struct Ticket {
  cudaIpcMemHandle_t handle;
  std::uint64_t bytes;
};

UniqueFd written(const Ticket& ticket) {
  UniqueFd fd(::memfd_create("espalier-ipc", MFD_CLOEXEC));
  if (!fd || ::pwrite(fd.get(), &ticket, sizeof ticket, 0) != static_cast<ssize_t>(sizeof ticket))
    throw Error("CUDA: the handle of state memory cannot be kept: " + std::string(std::strerror(errno)));
  return fd;
}

class OwnMemory : public Allocation {
 public:
  explicit OwnMemory(std::size_t bytes) : bytes_(bytes) {
    must_run(::cudaMalloc(&data_, (bytes + kBlock - 1) / kBlock * kBlock), "allocating state memory");
    try {
      Ticket ticket{{}, bytes};
      must_run(::cudaIpcGetMemHandle(&ticket.handle, data_), "sharing state memory");
      fd_ = written(ticket);
      must_run(::cudaMemset(data_, 0, bytes), "clearing state memory");
      must_run(::cudaDeviceSynchronize(), "clearing state memory");
    } catch (const Error&) {
      ::cudaFree(data_);
      throw;
    }
  }
  ~OwnMemory() override { ::cudaFree(data_); }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  int fd() const override { return fd_.get(); }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
  UniqueFd fd_;
};

class ForeignMemory : public Allocation {
 public:
  ForeignMemory(UniqueFd fd, std::size_t bytes) : bytes_(bytes), fd_(std::move(fd)) {
    Ticket ticket{};
    if (::pread(fd_.get(), &ticket, sizeof ticket, 0) != static_cast<ssize_t>(sizeof ticket))
      throw Error("state memory: the descriptor is not one of ours");
    if (ticket.bytes != bytes)
      throw Error("state memory: the descriptor has " + std::to_string(ticket.bytes) + " bytes instead of " +
                  std::to_string(bytes) + "; the generations train different models");
    must_run(::cudaIpcOpenMemHandle(&data_, ticket.handle, cudaIpcMemLazyEnablePeerAccess), "mapping state memory");
  }
  ~ForeignMemory() override {
    ::cudaDeviceSynchronize();  // nothing on the GPU may still use the memory that is unmapped now
    ::cudaIpcCloseMemHandle(data_);
  }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  int fd() const override { return fd_.get(); }

 private:
  std::size_t bytes_;
  UniqueFd fd_;
  void* data_ = nullptr;
};

}  // namespace

std::unique_ptr<Allocation> allocate_ipc(std::size_t bytes) { return std::make_unique<OwnMemory>(bytes); }
std::unique_ptr<Allocation> map_ipc(UniqueFd fd, std::size_t bytes) {
  return std::make_unique<ForeignMemory>(std::move(fd), bytes);
}

}  // namespace espalier::torchrt
