#include "torchrt/device/cuda.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/device/cuda_driver.hpp"
#include "torchrt/device/cuda_ipc.hpp"
#include "torchrt/device/device_error.hpp"

namespace espalier::torchrt {

namespace {

constexpr int kStarts = 5;
constexpr std::chrono::milliseconds kBetweenStarts{300};
// The stream on which torch computes. What a copy reads is ready when its turn comes, and the lanes of messages wait
// for this stream.
constexpr cudaStream_t kCopies = nullptr;

CUmemAllocationProp properties(int index) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = index;
  return wanted;
}

// Physical memory. The mapping keeps its own reference, so the handle lives only during the set-up.
class Handle {
 public:
  explicit Handle(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { cuda_driver().release(handle_); }
  CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_;
};

class CudaAllocation : public Allocation {
 public:
  // `mapped` is `bytes` rounded up to the granularity. Readable and writable from GPU `index`, whichever GPU holds it.
  CudaAllocation(const Handle& memory, UniqueFd fd, std::size_t bytes, std::size_t mapped, int index)
      : fd_(std::move(fd)), bytes_(bytes), mapped_(mapped) {
    const CudaDriver& driver = cuda_driver();
    must(driver.reserve(&address_, mapped_, 0, 0, 0), "reserving addresses");
    try {
      must(driver.map(address_, mapped_, 0, memory.get(), 0), "mapping state memory");
      mapped_now_ = true;
      CUmemAccessDesc access{};
      access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access.location.id = index;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      must(driver.set_access(address_, mapped_, &access, 1), "opening state memory");
    } catch (const Error&) {
      release();
      throw;
    }
  }
  ~CudaAllocation() override {
    ::cudaDeviceSynchronize();  // nothing on the GPU may still use the memory unmapped now
    release();
  }
  void* data() const override { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address_)); }
  std::size_t bytes() const override { return bytes_; }
  int fd() const override { return fd_.get(); }

 private:
  void release() {
    if (mapped_now_) cuda_driver().unmap(address_, mapped_);
    cuda_driver().free_address(address_, mapped_);
  }
  UniqueFd fd_;
  std::size_t bytes_, mapped_;
  CUdeviceptr address_ = 0;
  bool mapped_now_ = false;
};

bool shares_by_descriptor(int index) {
  for (const CUdevice_attribute needed : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int supported = 0;
    must(cuda_driver().attribute(&supported, needed, index), "asking what the GPU supports");
    if (supported == 0) return false;
  }
  return true;
}

// A stream that waits for no other stream, and for which no other stream waits.
class Stream {
 public:
  Stream() { must_run(::cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Choosing a GPU makes the context by itself since CUDA 12, before that a call that uses the GPU.
cudaError_t make_context(int index) {
  const cudaError_t chosen = ::cudaSetDevice(index);
  return chosen == cudaSuccess ? ::cudaFree(nullptr) : chosen;
}

// Chooses the GPU for this thread, and makes the context that the driver's functions need. "Unavailable" may mean that
// the GPU has failed. It may also mean that only one process may use it, or that one that ends has not yet left it.
void start(int index) {
  cudaDeviceProp found{};
  must_run(::cudaGetDeviceProperties(&found, index), "asking for the GPU's name");
  if (std::strstr(found.name, " MIG ") != nullptr)
    throw Error("CUDA: GPU " + std::to_string(index) + " is a part of one (" + found.name +
                "); Espalier trains on whole GPUs: switch MIG off (nvidia-smi -mig 0), or ask for others");
  cudaError_t result = make_context(index);
  for (int tries = 1; result == cudaErrorDevicesUnavailable && tries < kStarts; ++tries) {
    int mode = cudaComputeModeDefault;
    ::cudaGetLastError();
    ::cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, index);
    if (mode != cudaComputeModeDefault)
      throw Error("CUDA: GPU " + std::to_string(index) + " serves one process only, or none (compute mode " +
                  std::to_string(mode) +
                  "), and two generations share it during a hand-off; set it to default (nvidia-smi -c 0)");
    std::this_thread::sleep_for(kBetweenStarts);
    result = make_context(index);
  }
  must_run(result, "starting the GPU");
}

class CudaDevice : public Device {
 public:
  CudaDevice(int index, CudaSharing sharing) : index_(index) {
    int count = 0;
    must_run(::cudaGetDeviceCount(&count), "looking for GPUs");
    if (index >= count)
      throw Error("CUDA: there is no GPU " + std::to_string(index) + ", " + std::to_string(count) + " can be seen");
    start(index);
    int most_stride = 0;
    must_run(::cudaDeviceGetAttribute(&most_stride, cudaDevAttrMaxPitch, index), "asking for the longest stride");
    most_stride_ = static_cast<std::size_t>(most_stride);
    descriptors_ = sharing == CudaSharing::descriptors || (sharing == CudaSharing::best && shares_by_descriptor(index));
    if (!descriptors_) return;
    const CUmemAllocationProp wanted = properties(index);
    must(cuda_driver().granularity(&granularity_, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "asking for granularity");
  }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  int index() const override { return index_; }
  std::string name() const override {
    cudaDeviceProp found{};
    must_run(::cudaGetDeviceProperties(&found, index_), "asking for the GPU's name");
    return found.name;
  }

  std::unique_ptr<Allocation> allocate(std::size_t bytes, const std::string&) override {
    if (!descriptors_) return allocate_ipc(bytes);
    const CudaDriver& driver = cuda_driver();
    const CUmemAllocationProp wanted = properties(index_);
    CUmemGenericAllocationHandle created{};
    must(driver.create(&created, rounded(bytes), &wanted, 0), "allocating state memory");
    const Handle memory(created);
    int exported = -1;
    must(driver.export_handle(&exported, memory.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         "exporting state memory");
    UniqueFd fd(exported);
    auto allocation = std::make_unique<CudaAllocation>(memory, std::move(fd), bytes, rounded(bytes), index_);
    must_run(::cudaMemset(allocation->data(), 0, bytes), "clearing state memory");
    must_run(::cudaDeviceSynchronize(), "clearing state memory");
    return allocation;
  }

  std::unique_ptr<Allocation> adopt(UniqueFd fd, std::size_t bytes) override {
    if (!descriptors_) return map_ipc(std::move(fd), bytes);
    CUmemGenericAllocationHandle imported{};
    void* const descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get()));
    must(cuda_driver().import_handle(&imported, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
         "importing state memory");
    const Handle memory(imported);
    return std::make_unique<CudaAllocation>(memory, std::move(fd), bytes, rounded(bytes), index_);
  }

  bool adopts() const override { return descriptors_; }

  void copy_runs(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t run,
                 std::size_t count) override {
    if (count > 1 && std::max(to_stride, from_stride) <= most_stride_)
      return must_run(::cudaMemcpy2DAsync(to, to_stride, from, from_stride, run, count, cudaMemcpyDefault, kCopies),
                      "copying state");
    for (std::size_t i = 0; i < count; ++i)  // one, or few: they are far apart
      must_run(::cudaMemcpyAsync(static_cast<char*>(to) + i * to_stride,
                                 static_cast<const char*>(from) + i * from_stride, run, cudaMemcpyDefault, kCopies),
               "copying state");
  }
  void finish_copies() override { must_run(::cudaStreamSynchronize(kCopies), "copying state"); }
  void wait() override { must_run(::cudaDeviceSynchronize(), "waiting for the GPU"); }
  void check() const override {
    must_run(::cudaSetDevice(index_), "choosing a GPU");  // each thread has its own current GPU
    const cudaError_t own = ::cudaStreamQuery(nullptr);
    ::cudaGetLastError();  // that work goes on is told as an error, which no later call may find
    if (loses_device(own)) must_run(own, "asking the GPU for its error");
  }
  bool nearly_full() const override { return gpu_nearly_full(); }
  void to_host(void* to, const void* from, std::size_t bytes) override { transfer(to, from, bytes); }
  void to_host_later(void* to, const void* from, std::size_t bytes) override {
    must_run(::cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, kCopies), "copying state");
  }
  void to_host_beside(void* to, const void* from, std::size_t bytes) override {
    must_run(::cudaSetDevice(index_), "choosing a GPU");  // each thread has its own current GPU
    const Stream beside;
    must_run(::cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, beside.get()), "copying state");
    must_run(::cudaStreamSynchronize(beside.get()), "copying state");
  }
  std::shared_ptr<void> pin(void* host, std::size_t bytes) override {
    if (::cudaHostRegister(host, bytes, cudaHostRegisterPortable) == cudaSuccess)
      return {host, [index = index_](void* memory) {
                ::cudaSetDevice(index);  // in a thread that had none, CUDA would begin to use GPU 0
                ::cudaHostUnregister(memory);
              }};
    ::cudaGetLastError();  // not an error: copies only take longer
    return nullptr;
  }
  void from_host(void* to, const void* from, std::size_t bytes) override { transfer(to, from, bytes); }

 private:
  std::size_t rounded(std::size_t bytes) const { return (bytes + granularity_ - 1) / granularity_ * granularity_; }
  static void transfer(void* to, const void* from, std::size_t bytes) {
    must_run(::cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying state");
    must_run(::cudaDeviceSynchronize(), "copying state");
  }
  int index_;
  bool descriptors_ = true;
  std::size_t granularity_ = 0;
  std::size_t most_stride_ = 0;  // of a copy in two dimensions
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index, CudaSharing sharing) {
  return std::make_unique<CudaDevice>(index, sharing);
}

}  // namespace espalier::torchrt
