// Measures some steps of a training and gathers at rank 0 the figures for the planner.
#pragma once

#include <optional>

#include "planner/core/model/profile.hpp"
#include "torchrt/profiler/op_recorder.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Measures the last few steps before every multiple of config.profile.every. In other steps it
// observes nothing. Collective: all ranks measure the same steps. For one thread. The references
// must outlive it. Throws Error.
class Profiler {
 public:
  Profiler(const Config& config, World& world, const Device& device, RankState& state);

  // Call them around every step of Executor::run(). `after` returns a profile on rank 0 after
  // measured steps.
  void before(std::int64_t step);
  std::optional<Profile> after(std::int64_t step);

 private:
  void sizes(ReplicaProfile& own) const;
  std::optional<Profile> gather(ReplicaProfile own, std::int64_t step);

  const Config& config_;
  World& world_;
  RankState& state_;
  OpRecorder recorder_;
  std::int64_t first_ = 0;  // first step of this generation; 0: none yet
  bool measuring_ = false;
};

}  // namespace espalier::torchrt
