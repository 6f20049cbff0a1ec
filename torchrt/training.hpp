// A rank's work at every step beside computing: checkpoints, validation, reports. Used with a
// launcher and without.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/checkpoint/saver.hpp"
#include "torchrt/data_agreement.hpp"
#include "torchrt/metrics.hpp"
#include "torchrt/profiler/profiler.hpp"
#include "torchrt/rank_state.hpp"

namespace espalier::torchrt {

struct StepReport {
  StepOutcome outcome;
  double seconds = 0;              // duration of the step, with its profiling
  std::optional<Profile> profile;  // on rank 0, after measured steps
};

// Collective where noted. For one thread. The references must outlive it.
class Training {
 public:
  // Opens the data, and reads by what it is recognised. Throws Error, perhaps on this rank alone.
  Training(const Config& config, World& world, Device& device, RankState& state, int generation);

  const Data& data() const { return data_; }

  // For the first generation. Gives every unit of `state`, which has memory, its values: from the
  // newest good checkpoint, from config.weights, or at random. Returns the last finished step.
  // Collective. Throws AgreedError on all ranks together. Throws Error on this rank alone; no
  // collective call is left then.
  std::int64_t start();
  // For a later generation. Its state comes from the generation `before`, or, `by_disk`, from the checkpoint that it
  // writes for that. `damaged`: steps of checkpoints that were refused. Collective. Throws AgreedError on all ranks
  // together.
  void take_over(int before, bool by_disk, const std::vector<std::int64_t>& damaged = {});
  // Other ranks have taken over, and this one is about to end.
  void leave() const { saver_->leave(); }
  // What this rank trains on, for the marks that the next generation reads.
  DataMarks reads() const { return data_marks(files_); }
  // `before`: what the generation before trained on. Throws Error, perhaps on this rank alone, when
  // it is something else and data.changed is false.
  void check_data(const DataMarks& before) const;
  // For a state that is already the one after `step`, when only finish() is left to do.
  void stands_after(std::int64_t step) { done_ = step; }
  // For rank 0. `told` is called now and then while it works at what is no step: a validation, or the end of a
  // checkpoint that is waited for.
  void on_progress(std::function<void()> told) { progress_ = std::move(told); }
  // For rank 0, before the first step. `done`: as in Metrics.
  void open_metrics(std::optional<std::int64_t> done);
  // For rank 0, after open_metrics(). Records a step of the generation before, if its record is
  // missing.
  void record_missing(std::int64_t step, double loss, double gradient_norm, double learning_rate) {
    metrics_->record_missing({step, loss, gradient_norm, learning_rate, std::nan("")});
  }

  // After the rehearsal, where a planner may listen. Collective. `look_now`: before the first step.
  void watch_links(bool look_now) { profiler_.begin_links(look_now); }
  void tell_alone(MeasuredAlone told) { profiler_.tell_alone(std::move(told)); }  // as Profiler's
  const LinkLook& links() const { return profiler_.links(); }                     // the newest look
  // After RankState::replan(): measures and reports the steps of the new plan. `sent`: its lists came with it.
  void replanned(bool sent = false);
  // Collective. `stop` is asked once, late in the step: was this rank asked to stop after it?
  // `kept` gives Vote::kept.
  StepReport step(std::int64_t step, const std::function<bool()>& stop, const std::function<bool()>& kept);
  // What is due after `step`, once step() has returned and the step has been told to the launcher: a validation, which
  // may take longer than a step may. `stop`: as Executor::evaluate's. False: it was stopped, and is still due.
  // Collective.
  bool after_step(std::int64_t step, const std::function<bool()>& stop);
  // Before the first step here: whether a validation after `step` is due that no earlier generation has written into
  // the file of open_metrics(). One that was to stop for a change leaves it to the next, and so do ranks that die in
  // it. `is_first`: no generation of this job was before; then `step` is a checkpoint's, and without such a file its
  // validation was made, or each start would make it again. Collective.
  bool lacks_validation(std::int64_t step, bool is_first);
  // A hand-off through the disk. save() puts the state, which is the one after `step`, into a
  // checkpoint. It returns false on all ranks when that failed. load() gives the units of `state`,
  // which have memory, their values from the checkpoint. It throws Error on this rank alone. Both
  // are collective.
  bool save(std::int64_t step);
  void load(std::int64_t step);
  // Asks for a checkpoint after the next step. Without checkpoint.directory it does nothing.
  void ask_checkpoint() { saver_->ask(); }
  // Call it after the last step. Returns when that step's checkpoint is complete. Collective.
  // Throws AgreedError when it cannot be written.
  void finish();

 private:
  void agree_on_data();
  void fill(CheckpointReader* checkpoint);
  void make_saver(std::optional<std::int64_t> last_good, std::vector<std::int64_t> damaged, bool one_comes = false);
  void clear_up(int first, int end);
  bool validation_is_due(std::int64_t step) const;
  bool validate(std::int64_t step, const std::function<bool()>& stop);
  RankSum ranks();
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
  DataFiles files_;
  std::optional<CheckpointSaver> saver_;
  std::optional<Metrics> metrics_;
  std::optional<LineFile> profiles_;  // on rank 0
  std::function<void()> progress_;
  std::int64_t done_ = 0;  // the last finished step, here or before
  double validating_ = 0;  // seconds of a validation that was stopped
  Profiler profiler_;
};

}  // namespace espalier::torchrt
