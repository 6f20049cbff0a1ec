// The base that training is on, and how long it and the bases after it may run. Pure.
#pragma once

#include <ctime>
#include <utility>

#include "launcher/base/base_time.hpp"
#include "planner/core/job.hpp"

namespace espalier::launcher {

class CurrentBase {
 public:
  // `time`: that the job's bases have.
  explicit CurrentBase(const BaseTime& time) : time_(time) {}

  JobId id() const { return id_; }  // 0: none runs yet
  const BaseTime& time() const { return time_; }

  // Training goes on on this base, which Slurm ends at `ends`: seconds since the epoch; 0: never. The base before, or
  // 0.
  JobId take(JobId id, std::time_t ends) {
    time_.began(ends);
    return std::exchange(id_, id);
  }
  // The time limits were read anew while training was on `base`. They count unless it has gone over to another one.
  void limits_read(JobId base, const BaseTime& time) {
    if (base == id_) time_ = time;
  }
  // A base has ended. True: it was this one, and there is none now.
  bool ended(JobId id) { return id == id_ && std::exchange(id_, 0) != 0; }

 private:
  BaseTime time_;
  JobId id_ = 0;
};

}  // namespace espalier::launcher
