#include "torchrt/checkpoint/write_part.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/checksum.hpp"
#include "torchrt/safetensors/writer.hpp"
#include "torchrt/write_file.hpp"

namespace espalier::torchrt {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{64} << 20;  // a slow disk writes one within seconds

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path + ": cannot be read; ranks need a common checkpoint.directory");
  return {std::istreambuf_iterator<char>(in), {}};
}

void check(const std::error_code& problem, const std::string& path, const char* what) {
  if (problem) throw Error(path + ": cannot be " + what + ": " + problem.message());
}

std::set<std::string> named_files(const Manifest& manifest) {
  std::set<std::string> files = {kManifestFile};
  for (const auto& [name, state] : manifest.tensors)
    for (const StateKind kind : kStateKinds)
      for (const StoredSlice& slice : state.of(kind)) files.insert(slice.file);
  return files;
}

void remove_others(const std::string& folder, const std::set<std::string>& files) {
  std::error_code problem;
  std::vector<fs::path> others;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (files.count(entry->path().filename()) == 0) others.push_back(entry->path());
  check(problem, folder, "read");
  for (const fs::path& path : others) {
    fs::remove_all(path, problem);
    check(problem, path, "removed");
  }
}

// Another process may clear up in the same directory.
void check_present(const std::string& folder, const std::set<std::string>& files, WriteProgress& progress) {
  for (const std::string& file : files) {
    std::error_code problem;
    const std::string path = folder + "/" + file;
    if (!fs::is_regular_file(path, problem))
      throw Error(path + ": " +
                  (problem && problem != std::errc::no_such_file_or_directory
                       ? "cannot be looked at: " + problem.message()
                       : "was removed before the checkpoint was whole; let nothing else clear up, and no second "
                         "training write, in checkpoint.directory"));
    progress.next();
  }
}

}  // namespace

void write_part(const std::string& folder, int rank, const Snapshot& snapshot, WriteProgress& progress) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  check(problem, folder, "made");
  progress.next();
  std::vector<TensorToStore> tensors;
  Manifest part;
  for (const SnapshotSlice& slice : snapshot.slices) {
    TensorToStore tensor;
    tensor.name = slice.tensor + "/" + name_of(slice.kind);
    tensor.shape = {slice.elements.count};
    StoredState& state = part.tensors[slice.tensor];
    state.shape = slice.global_shape;
    state.of(slice.kind)
        .push_back({part_file(rank), tensor.name, slice.rows, slice.columns, slice.elements,
                    checksum(slice.values, tensor.bytes())});
    tensors.push_back(std::move(tensor));
    progress.next();
  }
  SafetensorsWriter writer(folder + "/" + part_file(rank), tensors);
  progress.next();
  for (const SnapshotSlice& slice : snapshot.slices) {
    auto left = std::as_bytes(std::span(slice.values, static_cast<std::size_t>(slice.elements.count)));
    while (!left.empty()) {
      const auto piece = left.first(std::min(left.size(), kPiece));
      writer.append(piece);
      progress.next();
      left = left.subspan(piece.size());
    }
  }
  writer.finish();
  progress.next();
  write_whole_file(folder + "/" + part_manifest(rank), to_text(part));
}

void commit_checkpoint(const std::string& unfinished, const std::string& whole, int ranks, Manifest manifest,
                       WriteProgress& progress) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = unfinished + "/" + part_manifest(rank);
    merge(manifest, manifest_from(read_text(path), path));
    progress.next();
  }
  check_complete(manifest, unfinished);
  write_whole_file(unfinished + "/" + kManifestFile, to_text(manifest));
  const std::set<std::string> files = named_files(manifest);
  remove_others(unfinished, files);
  sync_directory(unfinished);
  progress.next();
  check_present(unfinished, files, progress);
  // A folder cannot be renamed onto one that is not empty. Between the two renames only the older
  // checkpoints are good. No good checkpoint is lost: `whole` was refused, or training would not
  // have come to this step again.
  std::error_code problem;
  if (fs::exists(whole)) {
    fs::rename(whole, unfinished + ".replaced.tmp", problem);
    check(problem, whole, "replaced");
  }
  fs::rename(unfinished, whole, problem);
  check(problem, whole, "made");
  sync_directory(fs::path(whole).parent_path());
}

}  // namespace espalier::torchrt
