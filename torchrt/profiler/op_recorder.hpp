// Records every operation of a rank in the measured steps, with its times.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "torchrt/profiler/timed_group.hpp"
#include "torchrt/profiler/timeline.hpp"
#include "torchrt/schedule/op.hpp"

namespace espalier::torchrt {

// Microseconds of the host's steady clock.
struct OpTimes {
  Op op;
  std::int64_t step = 0;
  double begin = 0;
  double start = 0;  // when its input had arrived
  double end = 0;
  double sums = 0;  // duration of its tensor-parallel sums
};

class OpRecorder : public OpObserver, public SumObserver {
 public:
  explicit OpRecorder(std::unique_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {}
  void begin_step(std::int64_t step) { step_ = step; }
  void begin(const Op& op) override;
  void arrived() override;
  void held(std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end) override;
  void end(const Op& op) override;
  void begin_sum() override;
  void end_sum() override;
  // Everything recorded since the last call, in order. Waits for the device.
  std::vector<OpTimes> take();

 private:
  struct Marks {
    Op op;
    std::int64_t step;
    std::size_t begin, start, end;
    std::optional<std::pair<double, double>> held;  // start and end; replaces the marks
  };
  std::unique_ptr<Timeline> timeline_;
  std::int64_t step_ = 0;
  std::vector<Marks> marks_;
  struct Sum {
    std::size_t op, begin, end;
  };
  std::vector<Sum> sums_;
};

}  // namespace espalier::torchrt
