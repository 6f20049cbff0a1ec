// Finds the checkpoint from which a training starts. All ranks find the same one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/checkpoint/reader.hpp"
#include "torchrt/config.hpp"
#include "torchrt/data_fingerprint.hpp"

namespace espalier::torchrt {

struct Resumption {
  std::unique_ptr<CheckpointReader> checkpoint;  // null: training starts at the beginning
  std::vector<std::int64_t> damaged;             // steps of the checkpoints passed over
  std::int64_t step() const { return checkpoint ? checkpoint->manifest().step : 0; }
};

// How the ranks exchange one number each.
struct RankSum {
  int rank = 0, ranks = 1;
  std::function<double(double)> sum;  // sum of all ranks' numbers; collective
};

// Returns the newest good checkpoint of config.checkpoint. Each rank verifies its share of the
// files. A rank that finds a damaged or partial checkpoint reports it through `tell`; then the next
// older checkpoint is tried. Collective. Throws Error on all ranks in four cases: the
// configuration disagrees with a checkpoint; `files`, to train on, are others than the checkpoint's
// and data.changed is false; there are checkpoints but no good one; resuming is off and the
// directory holds checkpoints. `files` null: it is not for training. They are the same on all ranks.
Resumption find_resumption(const Config& config, const RankSum& ranks,
                           const std::function<void(const std::string&)>& tell, const DataFiles* files = nullptr);

}  // namespace espalier::torchrt
