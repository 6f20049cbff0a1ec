#include "torchrt/device/cpu.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "torchrt/device/memory_error.hpp"
#include "torchrt/device/reserve_file.hpp"

namespace espalier::torchrt {

namespace {

class MemfdAllocation : public Allocation {
 public:
  MemfdAllocation(UniqueFd fd, std::size_t bytes) : fd_(std::move(fd)), bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
    if (data_ == MAP_FAILED)
      throw MemoryError("state memory: " + std::to_string(bytes) + " bytes cannot be mapped: " + std::strerror(errno));
  }
  ~MemfdAllocation() override { ::munmap(data_, bytes_); }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }
  int fd() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::size_t bytes_;
  void* data_;
};

class CpuDevice : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  int index() const override { return 0; }
  std::string name() const override { return ""; }

  std::unique_ptr<Allocation> allocate(std::size_t bytes, const std::string& label) override {
    UniqueFd fd(::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) throw Error("state memory: memfd_create failed: " + std::string(std::strerror(errno)));
    // Reserve now: running out of memory must be an error here, not a SIGBUS in the middle of a step.
    const int failure = reserve_file(fd.get(), bytes);
    if (failure != 0)
      throw MemoryError("state memory: " + std::to_string(bytes) + " bytes for " + label +
                        " cannot be had: " + std::strerror(failure) + "; give the job more memory");
    // A process that adopts the memory must not be able to pull it away from under the others.
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      throw Error("state memory: cannot be sealed: " + std::string(std::strerror(errno)));
    return std::make_unique<MemfdAllocation>(std::move(fd), bytes);
  }

  std::unique_ptr<Allocation> adopt(UniqueFd fd, std::size_t bytes) override {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
      throw Error("state memory: the descriptor has " + std::to_string(status.st_size) + " bytes instead of " +
                  std::to_string(bytes) + "; the generations train different models");
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) throw Error("state memory: the descriptor is not one of ours");
    return std::make_unique<MemfdAllocation>(std::move(fd), bytes);
  }

  void copy_runs(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t run,
                 std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(static_cast<char*>(to) + i * to_stride, static_cast<const char*>(from) + i * from_stride, run);
  }
  void finish_copies() override {}
  void wait() override {}
  void to_host(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void to_host_later(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void to_host_beside(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  std::shared_ptr<void> pin(void*, std::size_t) override { return nullptr; }
  void from_host(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace espalier::torchrt
