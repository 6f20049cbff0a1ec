#include <cuda_runtime_api.h>

#include <chrono>

#include "planner/core/error.hpp"
#include "torchrt/profiler/timeline.hpp"

namespace espalier::torchrt {

namespace {

void must(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw Error(std::string("profile: ") + what + ": " + cudaGetErrorString(code));
}

// Events in the default stream, in which torch computes. The events are reused.
class EventTimeline : public Timeline {
 public:
  ~EventTimeline() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  void clear() override { used_ = 0; }
  std::size_t mark() override {
    if (used_ == 0) origin_ = std::chrono::steady_clock::now();
    if (used_ == events_.size()) must(cudaEventCreate(&events_.emplace_back()), "an event cannot be made");
    must(cudaEventRecord(events_[used_], nullptr), "an event cannot be recorded");
    return used_++;
  }
  std::vector<double> microseconds() override {
    std::vector<double> times;
    if (used_ == 0) return times;
    must(cudaEventSynchronize(events_[used_ - 1]), "the device does not finish");
    double now = std::chrono::duration<double, std::micro>(origin_.time_since_epoch()).count();
    for (std::size_t i = 0; i < used_; ++i) {
      float milliseconds = 0;  // from event to event: over a whole step a float would be too coarse
      if (i > 0) must(cudaEventElapsedTime(&milliseconds, events_[i - 1], events_[i]), "events cannot be compared");
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
