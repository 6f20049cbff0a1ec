// What of a worker's state outlives it: its memory in the node's vault, and copies on other nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "torchrt/data_agreement.hpp"
#include "torchrt/rank_state.hpp"
#include "torchrt/recovery/keeping.hpp"
#include "torchrt/recovery/snapshots.hpp"
#include "torchrt/worker.hpp"

namespace espalier::torchrt {

// For one thread. The references must outlive it. All ranks of the world have this object and call the same methods at
// the same steps.
class KeptState {
 public:
  KeptState(RankState& state, World& world, Device& device) : state_(state), world_(world), device_(device) {}
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

  // Before all else. From now on the vault counts the rank as alive, and has the placed units of the state. The vault
  // is that of the Slurm job whose step this is; outside Slurm, of `node`, as the plan calls it. `reads`: what this
  // rank trains on. Collective where there are snapshots. Throws Error.
  void deposit(const WorkerEnvironment& environment, const std::string& node, const DataMarks& reads);

  const Marks& marks() { return keeping_->marks(); }
  // Marks all units: they hold the state after `step`.
  void mark(std::int64_t step) { keeping_->mark(step); }
  // What the executor has to know of beside training. Call it again after RankState::replan().
  void equip();
  // As Snapshots'. Without snapshots they do nothing.
  void boundary(std::int64_t step);
  void before_change();
  // Whether what a recovery needs from this rank will outlive it.
  bool keeps() const { return keeping_->keeps() && (!snapshots_ || snapshots_->complete()); }

 private:
  RankState& state_;
  World& world_;
  Device& device_;
  std::optional<Snapshots> snapshots_;
  std::optional<Keeping> keeping_;
};

}  // namespace espalier::torchrt
