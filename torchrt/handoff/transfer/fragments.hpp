// The state of one unit, cut into fragments. A fragment is all coordinates that the same shards
// hold before a hand-off and the same shards need after it. There are few fragments, however large
// the tensors are. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/handoff/transfer/regions.hpp"
#include "torchrt/model/state_layout.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

enum class StatePart { parameters, master, first_moment, second_moment };

// One shard of a unit's state, which one or more ranks hold. Two units may share a tensor (tied
// embeddings) and so its coordinates. Such units are members of one group and are cut together.
// Every other unit is a group of its own.
struct StateShard {
  int member = 0;  // of the group
  int zero_rank = 0;
  UnitSpec spec;
  StateLayout state;
  bool same_memory(const StateShard& other) const {
    return member == other.member && spec.tp == other.spec.tp && spec.tp_rank == other.spec.tp_rank &&
           state == other.state;
  }
};

// Bytes [first, first + bytes()) of a fragment.
struct Section {
  std::string tensor;  // Hugging Face's name: tied tensors have one
  StatePart part = StatePart::parameters;
  Rectangle where;
  std::size_t first = 0, element = 4;  // bytes
  std::size_t bytes() const { return static_cast<std::size_t>(where.area()) * element; }
};

struct Fragment {
  std::vector<int> before, after;  // indices of shards, ascending; neither is empty
  std::vector<Section> sections;   // the fragment is their bytes, in this order
  std::size_t bytes = 0;
};

struct Partition {
  std::vector<StateShard> before, after;
  std::vector<Fragment> fragments;  // every coordinate that a shard in `after` holds is in exactly one
};

// All shards must be of one group and one model. The shards of each side together must hold the
// whole group.
Partition partition(std::vector<StateShard> before, std::vector<StateShard> after);

// `count` runs of `run` bytes, the first at `at`, each `stride` after the one before.
struct Block {
  std::size_t at = 0, run = 0, count = 1, stride = 0;
  std::size_t bytes() const { return run * count; }
  bool operator==(const Block&) const = default;
};

// The same elements in two memories: `run` and `count` are equal.
struct BlockPair {
  Block from, to;
};

// Where bytes [first, first + bytes) of a fragment lie in an allocation of `shard`, in the
// fragment's order. `first` and `bytes` are multiples of 4, or end with the fragment. `part`: only
// the bytes of this part.
std::vector<Block> blocks(const Fragment& fragment, std::size_t first, std::size_t bytes, const StateShard& shard,
                          std::optional<StatePart> part = std::nullopt);
std::vector<BlockPair> block_pairs(const Fragment& fragment, std::size_t first, std::size_t bytes,
                                   const StateShard& from, const StateShard& to,
                                   std::optional<StatePart> part = std::nullopt);

}  // namespace espalier::torchrt
