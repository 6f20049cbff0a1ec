// Checkpoints beside training. A checkpoint is copied at a step's boundary and written by a thread.
// The ranks agree about it in the steps that follow.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/checkpoint/agreement.hpp"
#include "torchrt/checkpoint/snapshot.hpp"
#include "torchrt/config.hpp"

namespace espalier::torchrt {

// Every rank has a saver and calls the same methods at the same steps. Failures while writing are
// reported to `tell`, never thrown: training goes on, and the last good checkpoint stays. The
// methods are for one thread; the saver has its own thread for writing.
class CheckpointSaver {
 public:
  struct Setting {
    const Config* config = nullptr;
    int rank = 0, ranks = 1;
    int generation = 0;
    nlohmann::json data = nlohmann::json::object();  // to_facts() of what is trained on
    std::optional<std::int64_t> last_good;           // step of the newest good checkpoint on disk
    std::vector<std::int64_t> damaged;               // steps of the refused checkpoints on disk
    std::function<void(const std::string&)> tell;    // called from any thread
    // How long settle() waits for a disk.
    std::chrono::milliseconds patience = std::chrono::minutes(30);
    double age = 0;                     // seconds since the newest checkpoint on disk was written; 0: there is none
    std::function<double()> time = {};  // seconds of a clock that is never set back; empty: the system's
  };
  explicit CheckpointSaver(Setting setting);
  // A checkpoint being written stays unfinished: the process is about to end.
  ~CheckpointSaver() = default;

  // Asks for a checkpoint after the next step, though none is due.
  void ask() { asked_ = true; }

  // vote() gives this rank's vote, agreed() takes all ranks' sum. Call both once per step, vote()
  // first. Rank 0 asks for a checkpoint when checkpoint.minutes have passed since the newest one was begun.
  CheckpointVote vote();
  void agreed(const CheckpointVote& sum);

  // Call it after `step`. When a checkpoint is due or was asked for, `snapshot` copies the state
  // and a thread writes it. While another checkpoint is still being written, the due one is left
  // out. If that happens at the training's last step, last_is_missing() says so afterwards.
  void boundary(std::int64_t step, const std::function<void(Snapshot&)>& snapshot);
  // Begins a checkpoint, due or not. No other checkpoint may be under way.
  void begin(std::int64_t step, const std::function<void(Snapshot&)>& snapshot);

  // Waits until no checkpoint is under way. Work that takes longer than `patience` counts as
  // failed. `sum` adds up the ranks' votes. Collective.
  void settle(const std::function<CheckpointVote(const CheckpointVote&)>& sum);
  // True when `step` is due for a checkpoint but its checkpoint is not on disk. The answer is the
  // same on all ranks once no checkpoint is under way.
  bool last_is_missing(std::int64_t step) const { return due(step) && !has(step); }
  // True when the newest good checkpoint is of `step`.
  bool has(std::int64_t step) const { return setting_.last_good == step; }

 private:
  bool due(std::int64_t step) const;
  bool is_time() const;  // checkpoint.minutes have passed
  void work();           // starts this rank's work of the new phase
  void conclude();       // takes the result of finished work
  void give_up();        // no longer waits for the work; its thread goes on
  std::string last_good() const;

  Setting setting_;
  CheckpointAgreement agreement_;
  // Shared with the writing thread; changed only when no checkpoint is under way.
  std::shared_ptr<Snapshot> copy_;
  std::future<void> work_;
  CheckpointVote result_;  // of the finished work
  double begun_ = 0;       // when the newest checkpoint was begun, by setting_.time
  bool asked_ = false;     // this rank asked for a checkpoint
  bool wanted_ = false;    // some rank asked for a checkpoint; all ranks know
};

}  // namespace espalier::torchrt
