// A model's units with the shards of both generations, cut into fragments. Pure.
#pragma once

#include <memory>
#include <vector>

#include "torchrt/handoff/transfer/fragments.hpp"
#include "torchrt/layout.hpp"
#include "torchrt/model/model_config.hpp"

namespace espalier::torchrt {

struct GenerationLayout {
  Layout layout;
  bool zero1 = false;
  int zero_ranks(const StageLayout& stage) const { return zero1 ? stage.replicas : 1; }
};

// One allocation: a unit's state on a rank of the old or of the new generation.
struct MemoryId {
  bool old = false;
  int rank = 0, unit = 0;
  auto operator<=>(const MemoryId&) const = default;
};

// Units that are cut together: the two that share a tied table. Every other unit is alone.
struct UnitGroup {
  std::vector<int> units;
  std::shared_ptr<const Partition> partition;  // shared by groups that are cut alike
};

class UnitGroups {
 public:
  UnitGroups(const ModelConfig& model, DataType dtype, GenerationLayout before, GenerationLayout after);

  const GenerationLayout& before() const { return before_; }
  const GenerationLayout& after() const { return after_; }
  const std::vector<UnitGroup>& list() const { return groups_; }
  const StateShard& shard(const MemoryId& memory) const;
  // The memories of all ranks that hold shard `shard` of the group's partition (its `before` if
  // `old`, else its `after`).
  std::vector<MemoryId> holders(const UnitGroup& group, bool old, int shard) const;

 private:
  GenerationLayout before_, after_;
  std::vector<UnitGroup> groups_;
  std::vector<int> group_of_unit_;
};

}  // namespace espalier::torchrt
