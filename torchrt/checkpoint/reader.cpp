#include "torchrt/checkpoint/reader.hpp"

#include <algorithm>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/common_runs.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/checksum.hpp"
#include "torchrt/input_file.hpp"
#include "torchrt/unreadable_error.hpp"

namespace espalier::torchrt {

namespace {

// A checkpoint has a file of every rank that wrote it, and a process may often open 1,024 files.
constexpr std::size_t kMostOpenFiles = 256;
constexpr std::size_t kVerifiedAtOnce = 1 << 20;

std::string manifest_text(const std::string& folder) {
  try {
    return InputFile(folder + "/" + kManifestFile, "file").text();
  } catch (const UnreadableError& problem) {
    throw UnreadableError("checkpoint " + folder + ": " + problem.what());
  } catch (const Error&) {
    throw Error("checkpoint " + folder + ": is partial: it has no readable " + kManifestFile);
  }
}

Manifest read_manifest(const std::string& folder) {
  Manifest manifest = manifest_from(manifest_text(folder), "checkpoint " + folder + ": " + kManifestFile);
  check_complete(manifest, "checkpoint " + folder);
  return manifest;
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& folder) : folder_(folder), manifest_(read_manifest(folder)) {}

const SafetensorsFile& CheckpointReader::file(const std::string& name) {
  auto found = files_.find(name);
  if (found == files_.end()) {
    if (files_.size() >= kMostOpenFiles) files_.clear();
    try {
      found = files_.emplace(name, SafetensorsFile(folder_ + "/" + name)).first;
    } catch (const UnreadableError& problem) {
      throw UnreadableError("checkpoint " + folder_ + ": " + problem.what());
    } catch (const Error& problem) {
      throw Error("checkpoint " + folder_ + ": is damaged: " + problem.what());
    }
  }
  return found->second;
}

template <class Visit>
void CheckpointReader::in_file(const std::string& tensor, const StoredSlice& slice, const Visit& visit) {
  const SafetensorsFile& opened = file(slice.file);
  const StoredTensor* stored = opened.find(slice.key);
  if (stored == nullptr || stored->type != ElementType::f32 || stored->elements() != slice.elements.count)
    throw Error("checkpoint " + folder_ + ": is damaged: file " + slice.file + " does not hold tensor " + tensor +
                " as the manifest says");
  try {
    visit(opened, *stored);
  } catch (const UnreadableError& problem) {
    throw UnreadableError("checkpoint " + folder_ + ": " + problem.what());
  } catch (const Error& problem) {
    throw Error("checkpoint " + folder_ + ": " + problem.what());
  }
}

std::uint64_t CheckpointReader::stored_checksum(const std::string& tensor, const StoredSlice& slice) {
  Checksum sum;
  in_file(tensor, slice, [&](const SafetensorsFile& opened, const StoredTensor& stored) {
    std::vector<std::byte> part(std::min<std::uint64_t>(kVerifiedAtOnce, stored.bytes));
    for (std::uint64_t done = 0; done < stored.bytes; done += part.size()) {
      part.resize(std::min<std::uint64_t>(part.size(), stored.bytes - done));
      opened.read(stored, done, part);
      sum.add(part.data(), part.size());
    }
  });
  return sum.value();
}

void CheckpointReader::verify(int part, int parts) {
  std::set<std::string> names;
  const auto each_slice = [this](const auto& visit) {
    for (const auto& [tensor, state] : manifest_.tensors)
      for (const StateKind kind : kStateKinds)
        for (const StoredSlice& slice : state.of(kind)) visit(tensor, slice);
  };
  each_slice([&](const std::string&, const StoredSlice& slice) { names.insert(slice.file); });
  std::set<std::string> mine;
  int number = 0;
  for (const std::string& name : names)
    if (number++ % parts == part) mine.insert(name);
  each_slice([&](const std::string& tensor, const StoredSlice& slice) {
    if (mine.count(slice.file) == 0) return;
    if (stored_checksum(tensor, slice) != slice.checksum)
      throw Error("checkpoint " + folder_ + ": is damaged: file " + slice.file + ": tensor " + slice.key +
                  ": its checksum differs");
  });
}

void CheckpointReader::read(const UnitSpec& spec, StateKind kind, Range wanted, std::span<float> out) {
  ESPALIER_INVARIANT(static_cast<std::int64_t>(out.size()) == wanted.count);
  for (const TensorSpec& tensor : spec.tensors) {
    const auto offset = static_cast<std::int64_t>(tensor.offset);
    const Range held = intersection({offset, static_cast<std::int64_t>(tensor.elements())}, wanted);
    if (held.count == 0) continue;
    read_tensor(tensor, kind, {held.first - offset, held.count}, out.data() + (held.first - wanted.first));
  }
}

void CheckpointReader::read_tensor(const TensorSpec& spec, StateKind kind, Range wanted, float* out) {
  const auto found = manifest_.tensors.find(spec.hugging_face);
  if (found == manifest_.tensors.end() || found->second.shape != spec.global_shape)
    throw Error("checkpoint " + folder_ + ": has no tensor " + spec.hugging_face + " of the model's shape");
  std::int64_t copied = 0;
  for (const StoredSlice& slice : found->second.of(kind)) {
    const ShardPart from{&slice.rows, slice.columns, slice.elements}, to{&spec.rows, spec.columns, wanted};
    if (!overlap(from, to)) continue;
    in_file(spec.hugging_face, slice, [&](const SafetensorsFile& opened, const StoredTensor& stored) {
      copied += each_common_run(from, to, [&](const CommonRun& run) {
        opened.read(stored, static_cast<std::uint64_t>(run.from) * sizeof(float),
                    std::as_writable_bytes(std::span(out + run.to, static_cast<std::size_t>(run.count))));
      });
    });
  }
  if (copied != wanted.count)
    throw Error("checkpoint " + folder_ + ": is damaged: tensor " + spec.hugging_face + ": " + std::to_string(copied) +
                " of " + std::to_string(wanted.count) + " elements are there");
}

}  // namespace espalier::torchrt
