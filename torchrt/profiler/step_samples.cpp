#include "torchrt/profiler/step_samples.hpp"

#include <algorithm>
#include <vector>

#include "planner/core/model/step_statistics.hpp"
#include "torchrt/profiler/replica_times.hpp"

namespace espalier::torchrt {

void StepSamples::add(std::span<const OpTimes> times, int micro_batches) {
  for (std::size_t begin = 0, end = 0; begin < times.size(); begin = end) {
    while (end < times.size() && times[end].step == times[begin].step) ++end;
    Step step;
    step.times = replica_times(times.subspan(begin, end - begin), micro_batches);
    step.work = micro_batches * (step.times.fwd + step.times.bwd) + step.times.optim + step.times.sync.value_or(0);
    steps_.push_back(std::move(step));
    if (steps_.size() > kMost) steps_.pop_front();
  }
}

ReplicaProfile StepSamples::summary() const {
  ReplicaProfile result;
  const auto middle = [&](auto value) {
    std::vector<double> values;
    for (const Step& step : steps_) values.push_back(value(step.times));
    return median(std::move(values));
  };
  for (double ReplicaProfile::*time : {&ReplicaProfile::fwd, &ReplicaProfile::comm_fwd, &ReplicaProfile::bwd,
                                       &ReplicaProfile::bwd_weights, &ReplicaProfile::optim})
    result.*time = middle([time](const ReplicaProfile& one) { return one.*time; });
  const auto synchronizes = [](const Step& step) { return step.times.sync.has_value(); };
  if (std::any_of(steps_.begin(), steps_.end(), synchronizes))
    result.sync = middle([](const ReplicaProfile& one) { return one.sync.value_or(0); });
  std::vector<double> work;
  for (const Step& step : steps_) work.push_back(step.work);
  result.spread = spread_of(work);
  return result;
}

}  // namespace espalier::torchrt
