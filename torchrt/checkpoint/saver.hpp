// Checkpoints beside training. A checkpoint is copied at a step's boundary and written by a thread.
// The ranks agree about it in the steps that follow.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/checkpoint/agreement.hpp"
#include "torchrt/checkpoint/background_work.hpp"
#include "torchrt/checkpoint/snapshot.hpp"
#include "torchrt/config.hpp"

namespace espalier::torchrt {

// Every rank has a saver and calls the same methods at the same steps. Failures while writing are
// reported to `tell`, never thrown: training goes on, and the last good checkpoint stays. The
// methods are for one thread; the saver has its own thread for writing.
//
// A disk may not answer. A rank whose write stands still gives the attempt up: all ranks see it as
// failed, and the next checkpoint that is due is tried in a folder of its own. The thread that is
// stuck keeps its copy of the state, so a rank has at most two of them. A commit that stands still
// is only told: it may name the folder at any moment, so nobody may touch that meanwhile.
//
// Time in which this process stood still with its threads, e.g. while Slurm had the job suspended, does not count. The
// saver sees it by two votes that are far further apart than those before.
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
    // How long a write may stand still, or three times the time of the last checkpoint if that is longer. It doubles
    // with each attempt that is given up, twice at most: a disk may be slow.
    std::chrono::milliseconds patience = std::chrono::minutes(30);
    double age = 0;                     // seconds without a checkpoint before this generation
    std::function<double()> time = {};  // seconds of a clock that is never set back; empty: the system's
  };
  explicit CheckpointSaver(Setting setting);
  // A checkpoint being written stays unfinished: the process is about to end.
  ~CheckpointSaver() = default;
  // For a rank that is about to end because others take over: rank 0 tells of a checkpoint that stays unfinished.
  void leave() const;
  // Removes these folders in a thread. They must be ones that nobody writes.
  void clear_up(const std::vector<std::string>& folders) const;

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

  // Waits until no checkpoint is under way. Work that stands still counts as failed, a commit as
  // well. `sum` adds up the ranks' votes. `waits` is called several times a second meanwhile.
  // Collective.
  void settle(const std::function<CheckpointVote(const CheckpointVote&)>& sum, const std::function<void()>& waits = {});
  // True when `step` is due for a checkpoint but its checkpoint is not on disk. The answer is the
  // same on all ranks once no checkpoint is under way.
  bool last_is_missing(std::int64_t step) const { return due(step) && !has(step); }
  // True when the newest good checkpoint is of `step`.
  bool has(std::int64_t step) const { return setting_.last_good == step; }

 private:
  bool due(std::int64_t step) const;
  bool is_time() const;  // checkpoint.minutes have passed
  // Lets `start` begin this rank's work. What fails at once, for want of memory or of a thread, counts as work that has
  // failed.
  void begin_work(const std::function<void()>& start);
  void work();      // starts this rank's work of the new phase
  void watch();     // takes the result of finished work, or gives up what stands still
  void conclude();  // takes the result of finished work
  void give_up();   // no longer waits for the work; its thread goes on
  bool has_room();  // for another copy of the state, beside those of threads that are stuck
  void tell_stuck(const std::string& then);
  double limit() const;  // how long work may stand still, in seconds
  void look_at_clock();  // once per vote
  // Seconds, without those in which this process stood still.
  double awake() const { return setting_.time() - asleep_; }
  std::string of_step() const { return "checkpoint of step " + std::to_string(agreement_.step()) + ": "; }
  std::string folder() const;  // of the attempt under way
  std::string last_good() const;

  Setting setting_;
  CheckpointAgreement agreement_;
  // Shared with the writing thread; changed only when no checkpoint is under way.
  std::shared_ptr<Snapshot> copy_;
  BackgroundWork work_;
  std::vector<BackgroundWork> stuck_;  // writes that were given up
  std::vector<std::string> spared_;    // folders of commits that were given up
  int attempt_ = 0;                    // the same on all ranks: goes up with each checkpoint that failed
  std::int64_t stuck_bytes_ = 0;       // of the copy that the newest of them reads
  int given_up_ = 0;                   // by this rank, since the last good checkpoint
  bool settling_ = false;
  double told_ = 0;        // when this work was last told to stand still, by awake(); 0: it was not
  double lasted_ = 0;      // seconds from beginning to end of the last good checkpoint
  CheckpointVote result_;  // of the finished work
  double begun_ = 0;       // when the newest checkpoint was begun, by setting_.time
  double started_ = 0;     // the same by awake()
  double looked_ = 0;      // at the clock, by setting_.time; 0: not yet
  double between_ = 0;     // the last two looks, in seconds
  double asleep_ = 0;      // seconds in which this process stood still
  bool asked_ = false;     // this rank asked for a checkpoint
  bool wanted_ = false;    // some rank asked for a checkpoint; all ranks know
};

}  // namespace espalier::torchrt
