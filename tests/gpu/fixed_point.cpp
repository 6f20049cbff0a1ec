// fixed_point [COUNT]: the kernels that sum gradients as integers, against the loops of processors: every bit, for
// values of all sizes, of one to five tensors, and the flag of values that are none. Then the time of COUNT values
// (100,000,000). Prints a JSON object; what is wrong goes to stderr, exit status 1.
#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "torchrt/model/fixed_point_units.hpp"
#include "torchrt/model/flavour/fixed_point_kernels.hpp"

using namespace espalier::torchrt;

namespace {

constexpr float kMost = 4096;

void check(int code, const std::string& what) {
  if (code != 0) throw std::runtime_error(what + ": CUDA error " + std::to_string(code));
}

template <class T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values) : count_(values.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T)), "memory");
    check(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "copy to the GPU");
  }
  ~OnGpu() { cudaFree(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    check(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "copy from the GPU");
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// All exponents, both signs, halves of a unit, the smallest numbers and the largest that are allowed.
std::vector<float> all_kinds() {
  std::vector<float> values{0.0F,
                            -0.0F,
                            std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::min(),
                            std::nextafter(kMost, 0.0F),
                            -std::nextafter(kMost, 0.0F)};
  for (int half = -9; half <= 9; ++half) values.push_back(static_cast<float>(half) * 0x1p-51F);
  std::mt19937 random(1);
  while (values.size() < 3'000'017) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::fabs(value) < kMost) values.push_back(value);
  }
  return values;
}

void same_bits(int parts) {
  std::vector<float> values = all_kinds();
  values.resize(values.size() / static_cast<std::size_t>(parts) * static_cast<std::size_t>(parts));
  std::mt19937_64 random(2);
  std::vector<std::int64_t> totals(values.size() / static_cast<std::size_t>(parts));
  for (std::int64_t& total : totals) total = static_cast<std::int64_t>(random()) >> 2;
  const OnGpu from(values);
  const OnGpu<unsigned char> bad({0});
  bool* const flag = reinterpret_cast<bool*>(bad.data());
  const auto count = static_cast<std::int64_t>(totals.size());
  for (const bool fresh : {false, true}) {
    const OnGpu to(totals);
    check(launch_add_fixed_point(to.data(), from.data(), count, parts, fresh, kMost, flag, nullptr), "launch");
    const auto found = to.values();
    for (std::size_t i = 0; i < totals.size(); ++i) {
      std::int64_t right = fresh ? 0 : totals[i];
      for (std::size_t place = i; place < values.size(); place += totals.size()) right += units_of(values[place]);
      if (found[i] != right)
        throw std::runtime_error("sum " + std::to_string(i) + " of " + std::to_string(parts) + ": the GPU has " +
                                 std::to_string(found[i]) + ", a processor " + std::to_string(right));
    }
  }
  if (bad.values()[0] != 0) throw std::runtime_error("values in range were told to be out of it");
  const OnGpu<float> back(std::vector<float>(totals.size()));
  check(launch_from_fixed_point(back.data(), OnGpu(totals).data(), count, nullptr), "launch");
  const auto found = back.values();
  for (std::size_t i = 0; i < totals.size(); ++i)
    if (std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(value_of(totals[i])))
      throw std::runtime_error("total " + std::to_string(totals[i]) + ": another float on the GPU");
}

void tells_what_is_out_of_range() {
  for (const float wrong :
       {kMost, -kMost, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(1'000'003, 1.0F);
    values[999'999] = wrong;
    const OnGpu from(values);
    const OnGpu to(std::vector<std::int64_t>(values.size()));
    const OnGpu<unsigned char> bad({0});
    check(launch_add_fixed_point(to.data(), from.data(), static_cast<std::int64_t>(values.size()), 1, true, kMost,
                                 reinterpret_cast<bool*>(bad.data()), nullptr),
          "launch");
    if (bad.values()[0] != 1) throw std::runtime_error(std::to_string(wrong) + " was not told");
  }
}

// GB/s of `bytes` a value.
template <class Launch>
double speed(std::int64_t count, double bytes, const Launch& launch) {
  constexpr int kTimes = 20;
  cudaEvent_t begin{}, end{};
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(launch(), "launch");
  check(cudaEventRecord(begin, nullptr), "event");
  for (int i = 0; i < kTimes; ++i) check(launch(), "launch");
  check(cudaEventRecord(end, nullptr), "event");
  check(cudaEventSynchronize(end), "event");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end), "event");
  return kTimes * static_cast<double>(count) * bytes / ms / 1e6;
}

}  // namespace

int main(int argc, char** argv) try {
  for (int parts = 1; parts <= 5; ++parts) same_bits(parts);
  tells_what_is_out_of_range();
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 100'000'000;
  const OnGpu values(std::vector<float>(static_cast<std::size_t>(4 * count), 0.5F));
  const OnGpu totals(std::vector<std::int64_t>(static_cast<std::size_t>(count)));
  const OnGpu<unsigned char> bad({0});
  const auto add = [&](bool fresh, int parts) {
    return [&, fresh, parts] {
      return launch_add_fixed_point(totals.data(), values.data(), count, parts, fresh, kMost,
                                    reinterpret_cast<bool*>(bad.data()), nullptr);
    };
  };
  std::printf(
      "{\"add_gb_s\": %.1f, \"fresh_gb_s\": %.1f, \"four_gb_s\": %.1f, \"from_gb_s\": %.1f, \"values\": %lld}\n",
      speed(count, 20, add(false, 1)), speed(count, 12, add(true, 1)), speed(count, 32, add(false, 4)),
      speed(count, 12, [&] { return launch_from_fixed_point(values.data(), totals.data(), count, nullptr); }),
      static_cast<long long>(count));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "fixed_point: %s\n", error.what());
  return 1;
}
