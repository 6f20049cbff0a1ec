// What a lost generation left on the nodes of the new one.
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
#include "torchrt/device/unique_fd.hpp"
#include "torchrt/recovery/choose_source.hpp"

namespace espalier::torchrt {

struct LostGeneration {
  std::string vault;         // ESPALIER_VAULT
  int generation = 0;        // the lost one
  int asker = 0;             // the new one
  Plan plan;                 // the lost one's
  std::string node;          // this rank's, in the new plan
  bool copies_only = false;  // Remains'
  std::int64_t until = INT64_MAX;
};

class Survivors {
 public:
  // Ends whoever of the lost generation still lives on this node, and gathers what is left on all nodes. A node whose
  // vault does not answer has nothing left; `tell` says so, and `silent` has its name, which is not asked again.
  // Collective; throws Error as MPI does.
  Survivors(World& world, LostGeneration lost, std::set<std::string>& silent,
            const std::function<void(const std::string&)>& tell);

  // On all nodes; the same on all ranks.
  const std::vector<Held>& left() const { return left_; }
  bool untouched() const { return untouched_; }  // Remains'; the same on all ranks
  const LostGeneration& lost() const { return lost_; }
  // A descriptor of memory on this node. Throws Error.
  UniqueFd fetch(int holder, int rank, int unit, int slot) const;
  // What the ranks of the lost generation had agreed upon last: of step `step`, wherever on the nodes it is known.
  // `step` is -1 where it is not. Collective.
  wire::VaultMarks agreement(World& world, std::int64_t step) const;

 private:
  void find_untouched(World& world);
  std::map<int, std::string> holders_here() const;  // with their vaults

  LostGeneration lost_;
  std::vector<Held> left_;
  bool untouched_ = false;
  std::map<std::tuple<int, int, int, int>, std::string> vaults_;  // on this node, by holder, rank, unit and slot
};

}  // namespace espalier::torchrt
