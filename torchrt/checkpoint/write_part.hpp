// Writes a rank's part of a checkpoint to disk and joins all parts to a checkpoint.
#pragma once

#include <string>

#include "torchrt/checkpoint/manifest.hpp"
#include "torchrt/checkpoint/snapshot.hpp"
#include "torchrt/checkpoint/write_progress.hpp"

namespace espalier::torchrt {

// Writes the snapshot's tensors and their part manifest into `folder`, and makes the folder if it
// is missing. The files are on disk when it returns. Throws Error that names file and reason. `progress` counts the
// pieces.
void write_part(const std::string& folder, int rank, const Snapshot& snapshot, WriteProgress& progress);

// Needs all `ranks` parts in `unfinished`. Writes the manifest, removes the files that it does not
// name and renames the folder to `whole`. An existing `whole` is replaced. Throws Error, also when a file that the
// manifest names is not there any more. `whole` is then unchanged, unless the last rename failed: its old content then
// lies in `unfinished`.replaced.tmp. Nothing is renamed once `progress` was given up.
void commit_checkpoint(const std::string& unfinished, const std::string& whole, int ranks, Manifest manifest,
                       WriteProgress& progress);

}  // namespace espalier::torchrt
