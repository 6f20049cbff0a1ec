// The folders of checkpoints: step-N is a whole checkpoint, step-N.gG.tmp is one that generation G
// is writing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier::torchrt {

inline constexpr const char* kManifestFile = "manifest.json";

std::string checkpoint_folder(const std::string& directory, std::int64_t step);
std::string unfinished_folder(const std::string& directory, std::int64_t step, int generation);
std::string part_file(int rank);  // one rank's tensors
// Describes the part's tensors; removed once the checkpoint is whole.
std::string part_manifest(int rank);

// The steps of the folders named step-N, the newest first. A missing directory holds none. Throws
// Error when the directory cannot be read.
std::vector<std::int64_t> checkpoint_steps(const std::string& directory);

// Seconds since the checkpoint of `step` was written, by the clocks of this host and of the file system; 0 where that
// cannot be told.
double checkpoint_age(const std::string& directory, std::int64_t step);

// Removes every unfinished checkpoint. No process may be writing one. Throws Error when a folder
// cannot be removed.
void remove_unfinished(const std::string& directory);

// Keeps the newest `keep` good checkpoints up to step `newest`. Removes the older ones, the damaged
// ones up to `newest`, and every unfinished one. `newest` itself counts as good even if `damaged`
// names it. Checkpoints beyond `newest` stay. Throws Error when a folder cannot be read or removed.
void prune_checkpoints(const std::string& directory, std::int64_t newest, int keep,
                       const std::vector<std::int64_t>& damaged);

}  // namespace espalier::torchrt
