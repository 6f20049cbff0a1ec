#include "torchrt/model/device_speed.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>

#include "planner/core/error.hpp"
#include "torchrt/model/tensor_device.hpp"

namespace espalier::torchrt {

namespace {

constexpr double kEnough = 0.1;  // seconds; shorter times say little

// Seconds of one run of `work`: the least of three measurements. Others may use the machine, too.
template <class Work>
double seconds_of(Device& device, const Work& work) {
  using Clock = std::chrono::steady_clock;
  work();
  double least = 0;
  for (int measured = 0, count = 1; measured < 3;) {
    device.wait();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) work();
    device.wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < kEnough && count < (1 << 20)) {
      count *= 2;
      continue;
    }
    least = measured++ == 0 ? seconds / count : std::min(least, seconds / count);
  }
  return least;
}

}  // namespace

DeviceSpeed measure_speed(Device& device) {
  const bool gpu = device.kind() == DeviceKind::cuda;
  const c10::Device where = tensor_device(device);
  const at::NoGradGuard no_gradients;
  try {
    DeviceSpeed speed;
    {
      const std::int64_t side = gpu ? 8192 : 768;
      const auto options = at::TensorOptions(where).dtype(gpu ? at::kBFloat16 : at::kFloat);
      const at::Tensor a = at::ones({side, side}, options), b = at::ones({side, side}, options);
      const double seconds = seconds_of(device, [&] { at::mm(a, b); });
      speed.tflops = 2.0 * static_cast<double>(side * side * side) / seconds / 1e12;
    }
    const std::int64_t bytes = gpu ? std::int64_t{1} << 30 : std::int64_t{1} << 26;
    const auto options = at::TensorOptions(where).dtype(at::kByte);
    at::Tensor to = at::empty({bytes}, options);
    const at::Tensor from = at::ones({bytes}, options);
    const double seconds = seconds_of(device, [&] { to.copy_(from, true); });
    speed.memory_gb_s = 2.0 * static_cast<double>(bytes) / seconds / 1e9;
    return speed;
  } catch (const c10::Error& error) {
    throw Error(std::string("torch: ") + error.what_without_backtrace());
  }
}

}  // namespace espalier::torchrt
