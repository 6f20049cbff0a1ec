// Measures some steps of a training and gathers at rank 0 what the planner is to know of them.
#pragma once

#include <optional>

#include "planner/core/model/profile.hpp"
#include "torchrt/profiler/op_recorder.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// Every config.profile.every steps the last few before are measured; between them nothing is observed. Collective: all
// ranks see the same steps. One thread; references outlive it. Throws Error.
class Profiler {
 public:
  Profiler(const Config& config, World& world, const Device& device, RankState& state);

  // Around every step of Executor::run(). `after` gives rank 0 a profile now and then.
  void before(std::int64_t step);
  std::optional<Profile> after(std::int64_t step);

 private:
  void sizes(ReplicaProfile& own) const;
  std::optional<Profile> gather(ReplicaProfile own, std::int64_t step);

  const Config& config_;
  World& world_;
  RankState& state_;
  OpRecorder recorder_;
  std::int64_t first_ = 0;  // step of this generation; 0: none yet
  bool measuring_ = false;
};

}  // namespace espalier::torchrt
