// A whole checkpoint, opened: its manifest, and its files as they are needed.
#pragma once

#include <map>
#include <span>
#include <string>

#include "torchrt/checkpoint/manifest.hpp"
#include "torchrt/device/device.hpp"
#include "torchrt/model/state_layout.hpp"
#include "torchrt/model/units.hpp"
#include "torchrt/safetensors/file.hpp"

namespace espalier::torchrt {

// One thread. Everything throws Error beginning with the checkpoint's name.
class CheckpointReader {
 public:
  // Reads and checks the manifest.
  explicit CheckpointReader(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // Compares every stored byte of every `parts`-th file, from number `part`, with its checksum: all ranks together read
  // the whole checkpoint once.
  void verify(int part, int parts);

  // Elements `wanted` of the unit's `floats`, gathered from whatever shards they were written as. `out` has
  // wanted.count floats and is zero before.
  void read(const UnitSpec& spec, StateKind kind, Range wanted, std::span<float> out);

 private:
  const SafetensorsFile& file(const std::string& name);
  std::span<const std::byte> bytes(const std::string& tensor, const StoredSlice& slice);
  void read_tensor(const TensorSpec& spec, StateKind kind, Range wanted, float* out);

  std::string folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;
};

// One unit's state into its memory: parameters, master weights where there are some, and the part of the moments that
// is kept here.
void load_state(CheckpointReader& checkpoint, const UnitSpec& spec, const StateLayout& state, Device& device,
                void* memory);

}  // namespace espalier::torchrt
