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

// The step of the newest checkpoint below `limit` by its name, but for the steps `passed_over`; -1: there is none. Only
// rank 0 looks at the directory, so that all ranks get the same answer. Collective. Throws Error on all ranks.
std::int64_t newest_checkpoint(const std::string& directory, std::int64_t limit, const RankSum& ranks,
                               const std::vector<std::int64_t>& passed_over = {});

// Unreadable: some rank could not read a file of it, which may be good.
enum class CheckpointIs { good, damaged, unreadable };

// What the checkpoint of `step` is; good: it is whole and its checksums are right. The same on all ranks. Each rank
// verifies its share, and reports what is wrong through `tell`, followed by `then`. One that disagrees with the
// configuration counts as good: find_resumption() will say so. Collective.
CheckpointIs look_at_checkpoint(const Config& config, std::int64_t step, const RankSum& ranks,
                                const std::function<void(const std::string&)>& tell, const std::string& then);

// For rank 0: gives the refused checkpoints names under which they neither count nor are in the way of new ones of
// their steps. Says so, or why it cannot; throws nothing.
void set_aside(const std::string& directory, const std::vector<std::int64_t>& damaged,
               const std::function<void(const std::string&)>& tell);

// Returns the newest good checkpoint of config.checkpoint. Each rank verifies its share of the
// files. A rank that finds a damaged or partial checkpoint reports it through `tell`; then the next
// older checkpoint is tried. Collective. Throws Error on all ranks in five cases: a rank cannot read a file of a
// checkpoint that is tried, for then that checkpoint may be good; the configuration disagrees with a checkpoint;
// `files`, to train on, are others than the checkpoint's and data.changed is false; there are checkpoints but no good
// one; resuming is off and the directory holds checkpoints. `files` null: it is not for training. They are the same on
// all ranks.
Resumption find_resumption(const Config& config, const RankSum& ranks,
                           const std::function<void(const std::string&)>& tell, const DataFiles* files = nullptr);

}  // namespace espalier::torchrt
