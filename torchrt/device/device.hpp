// The memory of the training state: host memory (memfd) or a GPU (CUDA), behind one narrow
// interface.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// One shareable piece of device memory. It is unmapped on destruction. The memory itself lives as
// long as any process maps it or holds its descriptor. Exception: where adopts() is false, it ends
// with the process that allocated it.
class Allocation {
 public:
  virtual ~Allocation() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
  // A descriptor that another process on this node passes to adopt(). The allocation owns it.
  virtual int fd() const = 0;
};

enum class DeviceKind { cpu, cuda };

// Not thread-safe, except where a method says so. All methods throw Error.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual int index() const = 0;         // for torch; 0 on CPU
  virtual std::string name() const = 0;  // the product name; "" on CPU
  // Zeroed and resident: the first touch costs nothing.
  virtual std::unique_ptr<Allocation> allocate(std::size_t bytes, const std::string& label) = 0;
  // Maps memory that another process allocated with the same `bytes`.
  virtual std::unique_ptr<Allocation> adopt(UniqueFd fd, std::size_t bytes) = 0;
  // True: adopted memory outlives the process that allocated it. False: it must be copied while
  // that process lives.
  virtual bool adopts() const { return true; }
  // Copies `count` runs of `run` bytes. A stride is the distance between the starts of two runs. On a GPU the copy may
  // begin after this returns. What torch computes later, and messages of a transport that are begun later, wait for it;
  // for the host, other processes and to_host_beside() call finish_copies().
  virtual void copy_runs(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t run,
                         std::size_t count) = 0;
  // Waits for what copy_runs() and to_host_later() have begun.
  virtual void finish_copies() = 0;
  // Waits until all work on the device is done, on all streams.
  virtual void wait() = 0;
  // Asks the device for its own error, without waiting for its work. A library's error may hide it. Throws DeviceError
  // when the GPU is lost. Any thread.
  virtual void check() const {}
  // So little memory is free that this is why a call of a library failed, whatever the library says. Any thread.
  virtual bool nearly_full() const { return false; }
  virtual void to_host(void* to, const void* from, std::size_t bytes) = 0;
  // As to_host(), but the copy may go on until finish_copies(). Worth it where `to` was given to pin().
  virtual void to_host_later(void* to, const void* from, std::size_t bytes) = 0;
  // As to_host(), but from any thread, and without waiting for the work on the device.
  virtual void to_host_beside(void* to, const void* from, std::size_t bytes) = 0;
  // Lets the device write to this host memory by itself, which speeds up copies to it. Lasts until
  // the result is destroyed; destroy the result before the memory. Null where that brings nothing
  // or fails.
  virtual std::shared_ptr<void> pin(void* host, std::size_t bytes) = 0;
  virtual void from_host(void* to, const void* from, std::size_t bytes) = 0;
};

// The flavour's device: host memory in espalier-train, a GPU in espalier-train-cuda. `assigned`:
// the number of the GPU among the GPUs that this process can see, counted from the lowest PCI
// address. Without it: the only GPU, or the GPU with number `local_rank`. Throws Error when there
// is no such GPU. On a machine without any GPU or driver it is host memory.
std::unique_ptr<Device> make_device(std::optional<int> assigned, int local_rank);

}  // namespace espalier::torchrt
