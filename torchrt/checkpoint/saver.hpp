// Checkpoints beside training: copied at a step's boundary, written by a thread, agreed upon in the steps that follow.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/checkpoint/agreement.hpp"
#include "torchrt/checkpoint/snapshot.hpp"
#include "torchrt/config.hpp"

namespace espalier::torchrt {

// Every rank has one and calls the same methods at the same steps. What goes wrong while writing is told to `tell` and
// never thrown: training goes on, the last good checkpoint stays. One thread, beside its own.
class CheckpointSaver {
 public:
  struct Setting {
    const Config* config = nullptr;
    int rank = 0, ranks = 1;
    int generation = 0;
    std::optional<std::int64_t> last_good;                          // on disk already
    std::vector<std::int64_t> damaged;                              // on disk and refused
    std::function<void(const std::string&)> tell;                   // from any thread
    std::chrono::milliseconds patience = std::chrono::minutes(30);  // settle()'s with a disk that does not answer
  };
  explicit CheckpointSaver(Setting setting);
  ~CheckpointSaver() = default;  // what is being written stays unfinished: the process is about to end

  // A checkpoint after the next step, though none is due.
  void ask() { asked_ = true; }

  // This rank's share of the step's agreement, and the sum of all; once per step, vote() first.
  CheckpointVote vote();
  void agreed(const CheckpointVote& sum);

  // After `step` was done. When a checkpoint is due, has `snapshot` copy the state and goes on; a checkpoint that is
  // due while one is still being written is left out; the last one of the training waits for finish().
  void boundary(std::int64_t step, const std::function<void(Snapshot&)>& snapshot);
  // Whether it is due or not; nothing may be under way.
  void begin(std::int64_t step, const std::function<void(Snapshot&)>& snapshot);

  // Until nothing is under way; what takes longer than `patience` has failed. `sum` adds up the ranks' votes.
  // Collective.
  void settle(const std::function<CheckpointVote(const CheckpointVote&)>& sum);
  // The training's last step is done and its checkpoint is due, but it is not on disk. The same on all ranks once
  // nothing is under way.
  bool last_is_missing(std::int64_t step) const { return due(step) && !has(step); }
  // The newest good checkpoint is that of `step`.
  bool has(std::int64_t step) const { return setting_.last_good == step; }

 private:
  bool due(std::int64_t step) const;
  void work();      // what the new phase asks of this rank
  void conclude();  // takes the result of the work
  void give_up();   // leaves the work to its thread
  std::string last_good() const;

  Setting setting_;
  CheckpointAgreement agreement_;
  std::shared_ptr<Snapshot> copy_;  // also the writing thread's; changed only when nothing is under way
  std::future<void> work_;
  CheckpointVote result_;  // of the work that is over
  bool asked_ = false;     // of this rank
  bool wanted_ = false;    // of any, as all know
};

}  // namespace espalier::torchrt
