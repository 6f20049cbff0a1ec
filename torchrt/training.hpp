// What a rank does at every step beside computing it, with a launcher and without: checkpoints, validation, reports.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/checkpoint/saver.hpp"
#include "torchrt/metrics.hpp"
#include "torchrt/profiler/profiler.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

struct StepReport {
  StepOutcome outcome;
  double seconds = 0;              // of the step, with its profiling
  std::optional<Profile> profile;  // rank 0, now and then
};

// Collective where noted; one thread. References outlive it.
class Training {
 public:
  // Opens the data. Throws Error, on this rank alone perhaps.
  Training(const Config& config, World& world, Device& device, RankState& state, int generation);

  const Data& data() const { return data_; }

  // The first generation: every unit of `state`, which has memory, gets its values, from the newest good checkpoint,
  // from config.weights or at random. Returns the last step done. Collective up to where it throws: AgreedError on all
  // ranks alike, Error on this rank alone, after which nothing waits for it.
  std::int64_t start();
  // A later generation, whose state comes from the one before.
  void take_over();
  // Nothing but the end may be left to do: the state is that after `step`.
  void stands_after(std::int64_t step) { done_ = step; }
  // Rank 0, before the first step; `done`: as in Metrics.
  void open_metrics(std::optional<std::int64_t> done);
  // Rank 0, after open_metrics(): a step of the generation before, whose record may be missing.
  void record_missing(std::int64_t step, double loss, double gradient_norm, double learning_rate) {
    metrics_->record_missing({step, loss, gradient_norm, learning_rate, std::nan("")});
  }

  // Collective. `stop`: asked once, late in the step, whether this rank was asked to stop after it; `kept`: for its
  // vote.
  StepReport step(std::int64_t step, const std::function<bool()>& stop, const std::function<bool()>& kept);
  // A hand-off through the disk. save(): the state, which is that after `step`, is in a checkpoint; false on all ranks
  // alike when that failed. load(): the units of `state`, which have memory, get their values from it. Throws Error on
  // this rank alone. Both collective.
  bool save(std::int64_t step);
  void load(std::int64_t step);
  // A checkpoint after the next step, where there is a place for one.
  void ask_checkpoint() { saver_->ask(); }
  // After the last step: its checkpoint is whole. Collective. Throws AgreedError when it cannot be written.
  void finish();

 private:
  void fill(CheckpointReader* checkpoint);
  void make_saver(std::optional<std::int64_t> last_good, std::vector<std::int64_t> damaged);
  void validate(std::int64_t step);
  void settle();
  void copy_state(Snapshot& snapshot);
  CheckpointVote sum(const CheckpointVote& vote);
  void tell(const std::string& what) const;

  const Config& config_;
  World& world_;
  Device& device_;
  RankState& state_;
  int generation_;
  Data data_;
  std::optional<Data> validation_;
  std::optional<CheckpointSaver> saver_;
  std::optional<Metrics> metrics_;
  std::int64_t done_ = 0;  // the last step made here, or before
  Profiler profiler_;
};

}  // namespace espalier::torchrt
