// Each rank's part under a plan: its units of the model, its samples of each micro-batch and its
// part of each tensor. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// Units number the model from front to back: 0 is the embedding, 1..layers are the blocks, layers+1
// is the final norm and head. A stage's ranks are ordered by replica, then by TP rank.
struct RankLayout {
  int stage = 0;
  int replica = 0, replicas = 1;      // data parallelism: of the stage
  int tp_rank = 0, tp = 1;            // tensor parallelism: of the replica
  int first_sample = 0, samples = 0;  // of each micro-batch
  std::vector<int> units;             // of all its chunks, ascending
  std::vector<int> chunks;            // that the stage holds, ascending
  bool has_embedding = false, has_head = false;
  bool operator==(const RankLayout&) const = default;
};

// A stage's ranks are [first_rank, first_rank + replicas * tp).
struct StageLayout {
  int first_rank = 0, replicas = 1, tp = 1;
  int rank(int replica, int tp_rank) const { return first_rank + replica * tp + tp_rank; }
  int ranks() const { return replicas * tp; }
  bool operator==(const StageLayout&) const = default;
};

// A run of consecutive units that one stage holds. Chunks are numbered in the order of the model.
struct ChunkLayout {
  int stage = 0;
  int first_unit = 0, units = 0;
  int last_unit() const { return first_unit + units - 1; }
  bool holds(int unit) const { return first_unit <= unit && unit <= last_unit(); }
  bool operator==(const ChunkLayout&) const = default;
};

struct Layout {
  int micro_batches = 0;
  int micro_batch = 0;  // samples
  int units = 0;
  std::vector<RankLayout> ranks;  // by rank
  std::vector<StageLayout> stages;
  std::vector<ChunkLayout> chunks;
  int chunk_of_unit(int unit) const;
  const StageLayout& stage_of_unit(int unit) const;
  // True when some stage holds several chunks, or the chunks are not in the order of the stages.
  bool chunked() const;
};

// Throws Error when the plan is invalid or does not fit a model of `layers` layers.
Layout make_layout(const Plan& plan, int layers);
// The same for a plan whose node names say where memory lies (as_reached(), recovery_plan.hpp). The memory of a TP
// group's ranks may lie on several nodes then. The layout itself depends on no name.
Layout make_memory_layout(const Plan& plan, int layers);

// The rows of a table of `rows` rows that TP rank `tp_rank` holds.
Range table_rows(std::int64_t rows, int tp, int tp_rank);

}  // namespace espalier::torchrt
