// A rank's part of a checkpoint on disk, and what makes all parts a checkpoint.
#pragma once

#include <string>

#include "torchrt/checkpoint/manifest.hpp"
#include "torchrt/checkpoint/snapshot.hpp"

namespace espalier::torchrt {

// Writes the snapshot's tensors and their part manifest into `folder`, which is made where it is missing; on disk when
// it returns. Throws Error naming file and reason.
void write_part(const std::string& folder, int rank, const Snapshot& snapshot);

// All `ranks` parts are in `unfinished`: writes the manifest, removes what it does not name and renames the folder to
// `whole`, replacing what is there. Throws Error; `whole` is then what it was.
void commit_checkpoint(const std::string& unfinished, const std::string& whole, int ranks, Manifest manifest);

}  // namespace espalier::torchrt
