// The place of torchrt/model/flavour in espalier-train-standin: tensors lie in host memory, which counts as the
// stand-in GPU's, and every operator of torch waits for the compute stream before it runs. So torch computes in the
// order of that stream, while all other streams go on beside it.
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "tests/gpu/standin/api.hpp"
#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/memory.hpp"
#include "tests/gpu/standin/settings.hpp"
#include "tests/gpu/standin/streams.hpp"
#include "torchrt/model/fixed_point.hpp"
#include "torchrt/model/fixed_point_device.hpp"
#include "torchrt/model/squared_sum.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace {

// Keeps what tensors give back for later ones, as torch's allocator for GPUs does: other processes cannot have it.
class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t wanted) override {
    fail_if_due();
    if (wanted == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = (wanted + 511) / 512 * 512;
    auto found = idle_.lower_bound(bytes);
    if (found == idle_.end() || found->first > bytes + bytes / 4) {
      if (!standin::charge(gpu_, bytes)) {
        drop_idle();
        TORCH_CHECK_WITH(OutOfMemoryError, standin::charge(gpu_, bytes), "CUDA out of memory. Tried to allocate ",
                         bytes, " bytes (stand-in)");
      }
      void* const memory = c10::alloc_cpu(bytes);
      standin::note_memory(memory, bytes, standin::Kind::device, gpu_);
      held_ += bytes;
      most_ = std::max(most_, held_);
      found = idle_.insert({bytes, memory});
    }
    void* const memory = found->second;
    sizes_[memory] = found->first;
    most_used_ = std::max(most_used_, used_ += found->first);
    idle_.erase(found);
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  std::size_t most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  std::size_t most_used() {
    const std::lock_guard lock(mutex_);
    return most_used_;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    most_ = held_;
    most_used_ = used_;
  }
  void empty() {
    const std::lock_guard lock(mutex_);
    drop_idle();
  }
  void use(int gpu) { gpu_ = gpu; }
  static CachingAllocator& instance();

 private:
  static void fail_if_due() {
    if (const int due = standin::count_call("torch"); due != 0) {
      standin::break_context(due == -3 ? 214 : due);
      if (due == -3)
        TORCH_CHECK(false, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(handle)`");
      if (due == -2) TORCH_CHECK(false, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
      throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, due,
                                  std::string("CUDA error: ") + cudaGetErrorString(static_cast<cudaError_t>(due)));
    }
    if (const int broken = standin::torch_error(); broken != 0)
      throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, broken,
                                  std::string("CUDA error: ") + cudaGetErrorString(static_cast<cudaError_t>(broken)));
  }
  void drop_idle() {
    for (const auto& [bytes, memory] : idle_) {
      standin::forget_memory(memory);
      c10::free_cpu(memory);
      standin::discharge(gpu_, bytes);
      held_ -= bytes;
    }
    idle_.clear();
  }
  static void release(void* memory) { instance().give_back(memory); }
  void give_back(void* memory) {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(memory);
    if (standin::settings().poison) std::memset(memory, 0xFF, found->second);
    idle_.insert({found->second, memory});
    used_ -= found->second;
    sizes_.erase(found);
  }

  std::mutex mutex_;
  int gpu_ = 0;
  std::multimap<std::size_t, void*> idle_;
  std::map<void*, std::size_t> sizes_;
  std::size_t held_ = 0, most_ = 0, used_ = 0, most_used_ = 0;
};

CachingAllocator& CachingAllocator::instance() {
  static auto* const only = new CachingAllocator;
  return *only;
}

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  standin::drain_compute();
  standin::count("operators", 1);
  if (std::strcmp(function.name(), "aten::_local_scalar_dense") == 0) standin::count("scalars_to_host", 1);
  // With the variable, torch for GPUs compiles a regular expression before each product.
  const bool product =
      std::strcmp(function.name(), "aten::mm") == 0 || std::strcmp(function.name(), "aten::addmm") == 0;
  if (product) standin::count(std::getenv("CUBLAS_WORKSPACE_CONFIG") != nullptr ? "slow_products" : "products", 1);
  return nullptr;
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    CachingAllocator::instance().use(standin::current_gpu());
    c10::SetCPUAllocator(&CachingAllocator::instance(), 255);
    at::addGlobalCallback(at::RecordFunctionCallback(&before_operator).scopes({at::RecordScope::FUNCTION}));
  });
}

}  // namespace

namespace espalier::torchrt {

c10::Device tensor_device(const Device& device) {
  if (device.kind() == DeviceKind::cuda) install();
  return c10::kCPU;
}
std::size_t most_torch_memory(const Device&) { return CachingAllocator::instance().most(); }
std::size_t most_tensor_memory(const Device&) { return CachingAllocator::instance().most_used(); }
void reset_most_torch_memory(const Device&) { CachingAllocator::instance().reset(); }
void release_torch_memory(const Device&) { CachingAllocator::instance().empty(); }

// Tensors are in host memory, where the loops of processors stand for the kernels.
void add_fixed_point_on_device(const at::Tensor&, const at::Tensor&, bool, float, const at::Tensor&) {
  ESPALIER_INVARIANT(false);
}
void from_fixed_point_on_device(const at::Tensor&, const at::Tensor&) { ESPALIER_INVARIANT(false); }

}  // namespace espalier::torchrt

// The product's own loops over tensors in host memory are no operators of torch; they stand for kernels. Linked by
// --wrap.
extern "C" {
void __real__ZN8espalier7torchrt15add_fixed_pointERKN2at6TensorES4_bdS4_(const at::Tensor&, const at::Tensor&, bool,
                                                                         double, const at::Tensor&);
void __wrap__ZN8espalier7torchrt15add_fixed_pointERKN2at6TensorES4_bdS4_(const at::Tensor& total,
                                                                         const at::Tensor& values, bool fresh,
                                                                         double most, const at::Tensor& out) {
  standin::drain_compute();
  standin::count("own_kernels", 1);
  __real__ZN8espalier7torchrt15add_fixed_pointERKN2at6TensorES4_bdS4_(total, values, fresh, most, out);
}
void __real__ZN8espalier7torchrt16from_fixed_pointERKN2at6TensorES4_(const at::Tensor&, const at::Tensor&);
void __wrap__ZN8espalier7torchrt16from_fixed_pointERKN2at6TensorES4_(const at::Tensor& values,
                                                                     const at::Tensor& total) {
  standin::drain_compute();
  standin::count("own_kernels", 1);
  __real__ZN8espalier7torchrt16from_fixed_pointERKN2at6TensorES4_(values, total);
}
std::vector<double> __real__ZN8espalier7torchrt12squared_sumsERKSt6vectorIN2at6TensorESaIS3_EE(
    const std::vector<at::Tensor>&);
std::vector<double> __wrap__ZN8espalier7torchrt12squared_sumsERKSt6vectorIN2at6TensorESaIS3_EE(
    const std::vector<at::Tensor>& values) {
  standin::drain_compute();
  standin::count("own_kernels", values.size());
  standin::count("scalars_to_host", 1);
  return __real__ZN8espalier7torchrt12squared_sumsERKSt6vectorIN2at6TensorESaIS3_EE(values);
}
}
