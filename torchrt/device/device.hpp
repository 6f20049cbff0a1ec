// Where training state lives: host memory (memfd) or a GPU (CUDA virtual memory), behind one narrow interface.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// One shareable piece of device memory. Unmapped on destruction; the memory itself lives as long as any process maps it
// or holds its descriptor.
class Allocation {
 public:
  virtual ~Allocation() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
  // A descriptor that adopt() of another process on this node takes. Owned by the allocation.
  virtual int fd() const = 0;
};

enum class DeviceKind { cpu, cuda };

// Not thread-safe but where it says so. All methods throw Error.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual int index() const = 0;         // for torch; 0 on CPU
  virtual std::string name() const = 0;  // as its maker calls it; "" on CPU
  // Zeroed and resident: nothing is left for first touch.
  virtual std::unique_ptr<Allocation> allocate(std::size_t bytes, const std::string& label) = 0;
  // Maps memory that another process allocated with the same `bytes`.
  virtual std::unique_ptr<Allocation> adopt(UniqueFd fd, std::size_t bytes) = 0;
  // Whether what is adopted outlives the process that allocated it. Else it is there to be copied, while that lives.
  virtual bool adopts() const { return true; }
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // `count` runs of `run` bytes; strides from the start of one to the next.
  virtual void copy_runs(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t run,
                         std::size_t count) = 0;
  // Until all work on it is done, on whatever stream.
  virtual void wait() = 0;
  virtual void to_host(void* to, const void* from, std::size_t bytes) = 0;
  // The same, from any thread and beside the work on the device, for which it does not wait.
  virtual void to_host_beside(void* to, const void* from, std::size_t bytes) = 0;
  // Host memory that is copied to often, made ready for the device to write to by itself. Until the result goes, which
  // goes before the memory. Null where there is nothing to gain, or to be had.
  virtual std::shared_ptr<void> pin(void* host, std::size_t bytes) = 0;
  virtual void from_host(void* to, const void* from, std::size_t bytes) = 0;
};

// The flavour's device: host memory in espalier-train, a GPU in espalier-train-cuda. `assigned`: which of the GPUs that
// this process can see, counted from the lowest PCI address. Nobody has assigned one: the only one, or that of
// `local_rank`. Throws Error when there is no such GPU; without any GPU or driver it is host memory.
std::unique_ptr<Device> make_device(std::optional<int> assigned, int local_rank);

}  // namespace espalier::torchrt
