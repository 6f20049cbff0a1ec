// The model's results for a stage at every micro-batch size, kept by the stage's shape. Searches
// meet the same few shapes again and again, in one job and in similar jobs.
#pragma once

#include <memory>
#include <unordered_map>

#include "planner/core/model/stage_rates.hpp"

namespace espalier {

// A stage's shares and times at one micro-batch size.
struct StageAt {
  Shares shares;
  StageRates rates;
  double inverse = 0;  // 1 / (fwd + bwd), per ms and layer
  bool ready = false;
};

// A stage with its times for every allowed N_b, in the order of Evaluator::micro_batch_counts(). An
// entry is computed at its first use. Copies share the entries.
struct StageTable {
  StageShape shape;
  std::shared_ptr<StageAt[]> at;
};

struct StageShapeHash {
  std::size_t operator()(const StageShape& shape) const {
    auto hash = static_cast<std::uint64_t>(shape.leads) << 56 ^ static_cast<std::uint64_t>(shape.tp) << 40 ^
                static_cast<std::uint64_t>(shape.level) << 32 ^ static_cast<std::uint64_t>(shape.least_members);
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape.class_count); ++c) {
      const ReplicaClass& one = shape.classes[c];
      hash ^= static_cast<std::uint64_t>(one.type) << 48 ^ static_cast<std::uint64_t>(one.kind) << 32 ^
              static_cast<std::uint64_t>(one.replicas);
      hash *= 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

// Valid for one job's coefficients, allowed N_b and rule of shares. Not thread-safe.
class StageBook {
 public:
  // The `count` entries of this shape. New entries are not ready.
  const std::shared_ptr<StageAt[]>& entries(const StageShape& shape, std::size_t count) {
    if (known_.size() >= kMost) known_.clear();  // tables in use keep their entries
    auto& found = known_[shape];
    if (!found) found = std::make_shared<StageAt[]>(count);
    return found;
  }

 private:
  static constexpr std::size_t kMost = 512;
  std::unordered_map<StageShape, std::shared_ptr<StageAt[]>, StageShapeHash> known_;
};

}  // namespace espalier
