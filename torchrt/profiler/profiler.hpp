// Measures some steps of a training and gathers at rank 0 the figures for the planner.
//
// Dense: at the start of a generation, after its first step, which warms up, every step is
// measured. A profile is made after 4, 8, 12 and 16 measured steps, then after every 16th. It holds
// the medians of the last 16 measured steps and says how well they are known
// (planner/core/model/step_statistics.hpp). The dense part ends with the first profile that is
// calm; otherwise after config.profile.dense steps, but not within its first two seconds, because
// short steps are disturbed by what else starts.
// Sparse: afterwards the last four steps before every multiple of config.profile.every are
// measured, and their profile is of the last 16 measured steps too.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/model/profile.hpp"
#include "torchrt/line_file.hpp"
#include "torchrt/profiler/layer_alone.hpp"
#include "torchrt/profiler/link_looks.hpp"
#include "torchrt/profiler/op_recorder.hpp"
#include "torchrt/profiler/step_samples.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

// In steps that are not measured it observes nothing. Collective: all ranks measure the same steps.
// For one thread. The references must outlive it. Throws Error.
class Profiler {
 public:
  Profiler(const Config& config, World& world, Device& device, RankState& state, int generation);

  // Call them around every step of Executor::run(). `after` returns a profile on rank 0 after
  // measured steps.
  void before(std::int64_t step);
  std::optional<Profile> after(std::int64_t step);
  // Beside the generation before, when this one is rehearsed (LinkLooks::begin()). Collective.
  void begin_links(bool look_now) { links_.begin(look_now); }
  // Of units alone, for rank 0: every profile from now on tells them.
  void tell_alone(MeasuredAlone told) { alone_ = std::move(told); }
  // After after(), when the step's time was taken: looks at the links if it is time. Collective.
  void look_at_links();
  const LinkLook& links() const { return links_.newest(); }
  // Between two steps, when the plan has changed: measures as at the start of a generation. `sent`: it runs lists that
  // came with it. Their memory is not told: who reads a profile takes it for that of the plan's schedule.
  void begin_anew(bool sent = false);

 private:
  bool wanted(std::int64_t step) const;
  void collect();
  void stop();
  void sizes(ReplicaProfile& own) const;
  std::optional<Profile> report(std::int64_t step);
  std::optional<Profile> gather(const ReplicaProfile& own, std::int64_t step);

  const Config& config_;
  World& world_;
  RankState& state_;
  OpRecorder recorder_;
  LinkLooks links_;
  StepSamples samples_;
  std::string driver_;
  MeasuredAlone alone_;
  std::optional<LineFile> trace_;
  std::int64_t first_ = 0;  // first step of this generation; 0: none yet
  std::chrono::steady_clock::time_point began_;
  bool dense_ = false;
  std::optional<double> reported_;  // seconds since the first step, when a profile was made after this one
  std::int64_t densely_ = 0;        // steps measured in the dense part
  bool measuring_ = false;
  bool tells_peak_ = true;
};

}  // namespace espalier::torchrt
