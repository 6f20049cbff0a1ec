#include "torchrt/handoff/transfer/groups.hpp"

#include <map>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

// All blocks of the model are cut alike, so the first one stands for all. So are its MTP modules.
int representative(const ModelConfig& model, int unit) {
  switch (unit_part(model, unit)) {
    case UnitPart::block:
      return 1;
    case UnitPart::mtp:
      return model.layers + 1;
    default:
      return unit;
  }
}

class Partitions {
 public:
  Partitions(const ModelConfig& model, DataType dtype, const GenerationLayout& before, const GenerationLayout& after)
      : model_(model), dtype_(dtype), before_(before), after_(after) {}

  std::shared_ptr<const Partition> of(const std::vector<int>& units) {
    std::vector<int> key{representative(model_, units.front())};
    for (const GenerationLayout* generation : {&before_, &after_})
      for (const int unit : units) {
        const StageLayout& stage = generation->layout.stage_of_unit(unit);
        key.insert(key.end(), {stage.tp, generation->zero_ranks(stage)});
      }
    std::shared_ptr<const Partition>& found = known_[key];
    if (!found) found = std::make_shared<Partition>(partition(shards(units, before_), shards(units, after_)));
    return found;
  }

 private:
  // Ordered by member, then by TP rank, then by ZeRO rank.
  std::vector<StateShard> shards(const std::vector<int>& units, const GenerationLayout& generation) const {
    std::vector<StateShard> result;
    for (std::size_t member = 0; member < units.size(); ++member) {
      const StageLayout& stage = generation.layout.stage_of_unit(units[member]);
      const int zero_ranks = generation.zero_ranks(stage);
      for (int tp_rank = 0; tp_rank < stage.tp; ++tp_rank) {
        const UnitSpec spec = unit_spec(model_, representative(model_, units[member]), stage.tp, tp_rank);
        for (int zero_rank = 0; zero_rank < zero_ranks; ++zero_rank)
          result.push_back(
              {static_cast<int>(member), zero_rank, spec, state_layout(spec, dtype_, zero_ranks, zero_rank)});
      }
    }
    return result;
  }

  const ModelConfig& model_;
  DataType dtype_;
  const GenerationLayout& before_;
  const GenerationLayout& after_;
  std::map<std::vector<int>, std::shared_ptr<const Partition>> known_;
};

}  // namespace

UnitGroups::UnitGroups(const ModelConfig& model, DataType dtype, GenerationLayout before, GenerationLayout after)
    : before_(std::move(before)), after_(std::move(after)) {
  Partitions partitions(model, dtype, before_, after_);
  const int units = unit_count(model);
  for (int unit = 0; unit < units; ++unit) {
    if (model.tied_embeddings && unit == units - 1) {
      group_of_unit_.push_back(0);
      continue;
    }
    group_of_unit_.push_back(static_cast<int>(groups_.size()));
    std::vector<int> members{unit};
    if (model.tied_embeddings && unit == 0) members.push_back(units - 1);
    const auto cut = partitions.of(members);
    groups_.push_back({std::move(members), cut});
  }
}

const StateShard& UnitGroups::shard(const MemoryId& memory) const {
  const GenerationLayout& generation = memory.old ? before_ : after_;
  const UnitGroup& group = groups_[static_cast<std::size_t>(group_of_unit_[static_cast<std::size_t>(memory.unit)])];
  const RankLayout& rank = generation.layout.ranks[static_cast<std::size_t>(memory.rank)];
  std::size_t index = 0;
  for (const int unit : group.units) {
    const StageLayout& stage = generation.layout.stage_of_unit(unit);
    const int zero_ranks = generation.zero_ranks(stage);
    if (unit == memory.unit) {
      index += static_cast<std::size_t>(rank.tp_rank * zero_ranks + (generation.zero1 ? rank.replica : 0));
      break;
    }
    index += static_cast<std::size_t>(stage.tp * zero_ranks);
  }
  return (memory.old ? group.partition->before : group.partition->after)[index];
}

std::vector<MemoryId> UnitGroups::holders(const UnitGroup& group, bool old, int shard) const {
  const GenerationLayout& generation = old ? before_ : after_;
  const StateShard& held = (old ? group.partition->before : group.partition->after)[static_cast<std::size_t>(shard)];
  const int unit = group.units[static_cast<std::size_t>(held.member)];
  const StageLayout& stage = generation.layout.stage_of_unit(unit);
  if (generation.zero1) return {{old, stage.rank(held.zero_rank, held.spec.tp_rank), unit}};
  std::vector<MemoryId> result;
  for (int replica = 0; replica < stage.replicas; ++replica)
    result.push_back({old, stage.rank(replica, held.spec.tp_rank), unit});
  return result;
}

}  // namespace espalier::torchrt
