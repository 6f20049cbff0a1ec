// The folders of checkpoints: step-N is a whole checkpoint, step-N.gG.tmp or step-N.gG.aA.tmp is one
// that generation G is writing, in its attempt A. step-N.damaged is one that was refused; where that
// name is taken, step-N.damaged.2 and so on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier::torchrt {

inline constexpr const char* kManifestFile = "manifest.json";

std::string checkpoint_folder(const std::string& directory, std::int64_t step);
// `attempt`: no two attempts of a generation share a folder, because a thread of the one before may
// still write there.
std::string unfinished_folder(const std::string& directory, std::int64_t step, int generation, int attempt = 0);
std::string part_file(int rank);  // one rank's tensors
// Describes the part's tensors; removed once the checkpoint is whole.
std::string part_manifest(int rank);

// The steps of the folders named step-N, the newest first. A missing directory holds none. Throws
// Error when the directory cannot be read.
std::vector<std::int64_t> checkpoint_steps(const std::string& directory);

// Seconds since the checkpoint of `step` was written, by the clocks of this host and of the file system; 0 where that
// cannot be told.
double checkpoint_age(const std::string& directory, std::int64_t step);

// Gives a refused checkpoint a name under which it does not count, and returns that name. Throws Error.
std::string set_aside_damaged(const std::string& directory, std::int64_t step);

// Removes a folder and what is in it. Throws Error when it is still there.
void remove_checkpoint(const std::string& folder);

// The unfinished folders of generations [first, end), of any step and attempt. Throws Error when the directory cannot
// be read.
std::vector<std::string> unfinished_folders(const std::string& directory, int first, int end);

// Keeps the newest `keep` good checkpoints up to step `newest`. Removes the older ones, the damaged ones up to
// `newest`, and the unfinished ones. `newest` itself counts as good even if `damaged` names it. Checkpoints beyond
// `newest` stay. So does an unfinished one beyond `newest` of a generation after `generation`, the own one: that
// generation may have taken over while a thread of this one still works, and may be writing it. The unfinished folders
// `spared` stay, too: a thread may be about to name one. Throws Error when a folder cannot be read or removed; the
// others are removed.
void prune_checkpoints(const std::string& directory, std::int64_t newest, int keep, int generation,
                       const std::vector<std::int64_t>& damaged, const std::vector<std::string>& spared = {});

}  // namespace espalier::torchrt
