#include "torchrt/profiler/op_recorder.hpp"

#include <utility>

namespace espalier::torchrt {

void OpRecorder::begin(const Op& op) {
  const std::size_t now = timeline_->mark();
  marks_.push_back({op, step_, now, now, now, {}});
}

void OpRecorder::arrived() { marks_.back().start = timeline_->mark(); }

void OpRecorder::held(std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end) {
  const auto microseconds = [](std::chrono::steady_clock::time_point at) {
    return std::chrono::duration<double, std::micro>(at.time_since_epoch()).count();
  };
  marks_.back().held = {microseconds(start), microseconds(end)};
}

void OpRecorder::end(const Op&) { marks_.back().end = timeline_->mark(); }

void OpRecorder::begin_sum() {
  if (marks_.empty()) return;
  const std::size_t now = timeline_->mark();
  sums_.push_back({marks_.size() - 1, now, now});
}

void OpRecorder::end_sum() {
  if (!sums_.empty()) sums_.back().end = timeline_->mark();
}

std::vector<OpTimes> OpRecorder::take() {
  const std::vector<double> at = timeline_->microseconds();
  std::vector<OpTimes> times;
  for (const Marks& one : std::exchange(marks_, {}))
    times.push_back({one.op, one.step, at[one.begin], one.held ? one.held->first : at[one.start],
                     one.held ? one.held->second : at[one.end], 0});
  for (const Sum& sum : std::exchange(sums_, {})) times[sum.op].sums += at[sum.end] - at[sum.begin];
  timeline_->clear();
  return times;
}

}  // namespace espalier::torchrt
