// Which checkpoint a training starts from: all ranks find the same one, together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/checkpoint/reader.hpp"
#include "torchrt/config.hpp"

namespace espalier::torchrt {

struct Resumption {
  std::unique_ptr<CheckpointReader> checkpoint;  // null: training starts at the beginning
  std::vector<std::int64_t> damaged;             // refused on the way
  std::int64_t step() const { return checkpoint ? checkpoint->manifest().step : 0; }
};

// What the ranks do together, one number each.
struct RankSum {
  int rank = 0, ranks = 1;
  std::function<double(double)> sum;  // of all ranks' numbers; collective
};

// The newest good checkpoint of config.checkpoint. Each rank verifies its share of the files; one that is damaged or
// partial is named through `tell` by whoever found it, and the one before is tried. Collective. Throws Error on all
// ranks alike when the configuration does not agree with a checkpoint, when there are checkpoints but no good one, or
// when resuming is off and the directory holds some.
Resumption find_resumption(const Config& config, const RankSum& ranks,
                           const std::function<void(const std::string&)>& tell);

}  // namespace espalier::torchrt
