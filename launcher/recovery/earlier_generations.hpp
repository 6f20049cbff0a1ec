// The generations before the running one whose state may still be needed after a loss, and what vaults must keep for
// them. Pure but for its callback.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class EarlierGenerations {
 public:
  using Earlier = wire::Assign::Source::Earlier;

  // `keep` is called when vaults are to keep something else than before.
  explicit EarlierGenerations(std::function<void(const wire::Keep&)> keep) : keep_(std::move(keep)) {}

  // `generation` runs in the place of the one before it, which never trained: nothing of that one is needed.
  void replace(int generation) { running_ = generation; }
  // Generation `running`, and `earlier` ones before it, are of a launcher that was lost.
  void take_over(int running, std::vector<Earlier> earlier);
  // Generation `next` follows the running one, which had `plan`. It begins after `step`. If it is lost before its first
  // step, it may have left less state than the generation before it. So the older state, and snapshots of it, are kept
  // until the new generation has both.
  void succeed(const Plan& plan, int next, std::int64_t step);
  // The running generation has done a step. After its first step a generation has changed the state that it took from
  // older ones, often in the same memory, so older generations keep only snapshots. Once the generation has settled
  // (wire::Step::settled), they keep nothing.
  void stepped(const wire::Step& step);
  // Makes room in the GPUs' memory after a failure before the running generation's first step: the ranks may have
  // lacked the memory that older state takes. False: there was nothing to let go, or the generation has trained.
  bool make_room();

  wire::Keep what_to_keep() const;
  const std::vector<Earlier>& list() const { return list_; }  // the youngest first

 private:
  std::function<void(const wire::Keep&)> keep_;
  int running_ = 0;
  bool has_trained_ = false;  // the running one
  std::vector<Earlier> list_;
};

}  // namespace espalier::launcher
