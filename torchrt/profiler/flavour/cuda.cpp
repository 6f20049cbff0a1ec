#include <cuda_runtime_api.h>

#include <chrono>

#include "torchrt/device/cuda_driver.hpp"
#include "torchrt/profiler/timeline.hpp"

namespace espalier::torchrt {

namespace {

// A GPU that has failed is told as such, whoever notices it first: the job then goes on without it.
void must(cudaError_t code, const char* what) { must_run(code, what); }

// Events in the default stream, in which torch computes. The events are reused.
class EventTimeline : public Timeline {
 public:
  ~EventTimeline() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  void clear() override { used_ = 0; }
  std::size_t mark() override {
    if (used_ == 0) origin_ = std::chrono::steady_clock::now();
    if (used_ == events_.size()) must(cudaEventCreate(&events_.emplace_back()), "profile: making an event");
    must(cudaEventRecord(events_[used_], nullptr), "profile: recording an event");
    return used_++;
  }
  std::vector<double> microseconds() override {
    std::vector<double> times;
    if (used_ == 0) return times;
    must(cudaEventSynchronize(events_[used_ - 1]), "profile: waiting for the GPU");
    double now = std::chrono::duration<double, std::micro>(origin_.time_since_epoch()).count();
    for (std::size_t i = 0; i < used_; ++i) {
      float milliseconds = 0;  // from event to event: over a whole step a float would be too coarse
      if (i > 0) must(cudaEventElapsedTime(&milliseconds, events_[i - 1], events_[i]), "profile: comparing events");
      now += 1e3 * static_cast<double>(milliseconds);
      times.push_back(now);
    }
    return times;
  }

 private:
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
  std::chrono::steady_clock::time_point origin_;
};

}  // namespace

std::unique_ptr<Timeline> make_timeline(const Device& device) {
  if (device.kind() == DeviceKind::cpu) return make_host_timeline();
  return std::make_unique<EventTimeline>();
}

}  // namespace espalier::torchrt
