#include "torchrt/checkpoint/reader.hpp"

#include <fstream>
#include <iterator>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/copy_slice.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/checksum.hpp"

namespace espalier::torchrt {

namespace {

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("checkpoint " + folder + ": is partial: it has no readable " + kManifestFile);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Manifest manifest = manifest_from(text, "checkpoint " + folder + ": " + kManifestFile);
  check_complete(manifest, "checkpoint " + folder);
  return manifest;
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& folder) : folder_(folder), manifest_(read_manifest(folder)) {}

const SafetensorsFile& CheckpointReader::file(const std::string& name) {
  auto found = files_.find(name);
  if (found == files_.end()) {
    try {
      found = files_.emplace(name, SafetensorsFile(folder_ + "/" + name)).first;
    } catch (const Error& problem) {
      throw Error("checkpoint " + folder_ + ": is damaged: " + problem.what());
    }
  }
  return found->second;
}

std::span<const std::byte> CheckpointReader::bytes(const std::string& tensor, const StoredSlice& slice) {
  const StoredTensor* stored = file(slice.file).find(slice.key);
  if (stored == nullptr || stored->type != ElementType::f32 || stored->elements() != slice.elements.count)
    throw Error("checkpoint " + folder_ + ": is damaged: file " + slice.file + " does not hold tensor " + tensor +
                " as the manifest says");
  return stored->bytes;
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
    const std::span<const std::byte> stored = bytes(tensor, slice);
    if (checksum(stored.data(), stored.size()) != slice.checksum)
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
    if (overlap(from, to)) copied += copy_common(from, bytes(spec.hugging_face, slice).data(), to, out);
  }
  if (copied != wanted.count)
    throw Error("checkpoint " + folder_ + ": is damaged: tensor " + spec.hugging_face + ": " + std::to_string(copied) +
                " of " + std::to_string(wanted.count) + " elements are there");
}

}  // namespace espalier::torchrt
