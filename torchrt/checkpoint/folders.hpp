// The folders of checkpoints: step-N for a whole one, step-N.gG.tmp for what generation G is writing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier::torchrt {

inline constexpr const char* kManifestFile = "manifest.json";

std::string checkpoint_folder(const std::string& directory, std::int64_t step);
std::string unfinished_folder(const std::string& directory, std::int64_t step, int generation);
std::string part_file(int rank);      // one rank's tensors
std::string part_manifest(int rank);  // what they are; only until the checkpoint is whole

// Steps of the folders that look whole, the newest first. A missing directory holds none. Throws Error when it cannot
// be read.
std::vector<std::int64_t> checkpoint_steps(const std::string& directory);

// Removes everything unfinished; nobody may be writing. Throws Error when something cannot be removed.
void remove_unfinished(const std::string& directory);

// Removes all whole checkpoints but the newest `keep` up to step `newest`, not counting those in `damaged`, which go as
// well; and everything unfinished. Throws Error as well.
void prune_checkpoints(const std::string& directory, std::int64_t newest, int keep,
                       const std::vector<std::int64_t>& damaged);

}  // namespace espalier::torchrt
