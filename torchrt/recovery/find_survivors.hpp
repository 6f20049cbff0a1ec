// Finds the memory that a lost generation left on the nodes of the new generation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/wire/vault_message.hpp"
#include "torchrt/comm/world.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/recovery/choose_source.hpp"

namespace espalier::torchrt {

struct LostGeneration {
  std::string vault;         // ESPALIER_VAULT
  int generation = 0;        // the lost one
  int asker = 0;             // the new one
  Plan plan;                 // of the lost generation, as_reached()
  Plan copies;               // the same, with host_memory_as_reached()
  std::string node;          // this rank's node in the new plan, as_reached()
  bool copies_only = false;  // as in Remains
  std::int64_t until = INT64_MAX;
};

class Survivors {
 public:
  // Ends the processes of the lost generation that still live on this node, and lists the memory
  // left on all nodes. A vault that does not answer counts as empty: `tell` reports it, and its
  // name goes into `silent`. Vaults in `silent` are not asked. GPU memory that `device` cannot map counts
  // as torn; `tell` reports that, too. Collective. Throws Error when MPI reports one.
  Survivors(World& world, Device& device, LostGeneration lost, std::set<std::string>& silent,
            const std::function<void(const std::string&)>& tell);

  // The memory on all nodes; the same on all ranks.
  const std::vector<Held>& left() const { return left_; }
  bool untouched() const { return untouched_; }  // as in Remains; the same on all ranks
  const LostGeneration& lost() const { return lost_; }
  // A descriptor of memory on this node. Throws Error.
  UniqueFd fetch(int holder, int rank, int unit, int slot) const;
  // The vaults of this node let the state go that the lost generation trained on. On a GPU it takes the room of the
  // next generation's. Only after all ranks have chosen another source. `tell`: of a vault that does not.
  void discard_state(const std::function<void(const std::string&)>& tell) const;
  // The last agreement of the lost generation's ranks, from any node that knows it. If none knows
  // an agreement of step `step`, the result's `step` is -1. Its `data` and `validation` are known
  // where any node knows them. Collective.
  wire::VaultMarks agreement(World& world, std::int64_t step) const;

 private:
  // Marks as torn what is no longer there.
  void check_gpu_memory(Device& device, std::vector<Held>& here, const std::function<void(const std::string&)>& tell);
  void find_untouched(World& world);
  std::map<int, std::string> holders_here() const;  // by holder: its vault

  LostGeneration lost_;
  std::vector<Held> left_;
  bool untouched_ = false;
  std::map<std::tuple<int, int, int, int>, std::string> vaults_;  // on this node, by holder, rank, unit and slot
};

}  // namespace espalier::torchrt
