#include "torchrt/model/host_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <atomic>
#include <cstring>

namespace espalier::torchrt {

namespace {

// torch's own allocation, with a count of the bytes that malloc really gave. Thread-safe.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = c10::alloc_cpu(bytes);
    const std::size_t now = held_ += ::malloc_usable_size(data);
    for (std::size_t most = most_; now > most && !most_.compare_exchange_weak(most, now);) {
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  static std::size_t most() { return most_; }
  static void reset() { most_ = held_.load(); }

 private:
  static void release(void* data) {
    held_ -= ::malloc_usable_size(data);
    c10::free_cpu(data);
  }
  static inline std::atomic<std::size_t> held_ = 0, most_ = 0;
};

}  // namespace

void count_host_memory() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, 255);
}

std::size_t most_host_memory() { return CountingAllocator::most(); }

void reset_most_host_memory() { CountingAllocator::reset(); }

}  // namespace espalier::torchrt
