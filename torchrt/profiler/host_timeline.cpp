#include <chrono>

#include "torchrt/profiler/timeline.hpp"

namespace espalier::torchrt {

namespace {

class HostTimeline : public Timeline {
 public:
  void clear() override { marks_.clear(); }
  std::size_t mark() override {
    marks_.push_back(std::chrono::steady_clock::now());
    return marks_.size() - 1;
  }
  std::vector<double> microseconds() override {
    std::vector<double> times;
    for (const auto& at : marks_)
      times.push_back(std::chrono::duration<double, std::micro>(at.time_since_epoch()).count());
    return times;
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Timeline> make_host_timeline() { return std::make_unique<HostTimeline>(); }

}  // namespace espalier::torchrt
