// An opened checkpoint. Its files are opened when they are needed, and read, not mapped: a file that is truncated or
// cannot be read is an Error, not the end of the process.
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

// For one thread. Every method throws Error that begins with the checkpoint's name: an UnreadableError where a file is
// there and the system cannot read it.
class CheckpointReader {
 public:
  // Reads and checks the manifest.
  explicit CheckpointReader(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // Compares the stored bytes with their checksums, in every `parts`-th file, beginning with file
  // number `part`. All ranks together so read the whole checkpoint once.
  void verify(int part, int parts);

  // Copies elements `wanted` of the unit's `floats` to `out`. The checkpoint may hold them in
  // shards of any cut. `out` has wanted.count floats. The caller sets them to zero: padding between
  // tensors is not written.
  void read(const UnitSpec& spec, StateKind kind, Range wanted, std::span<float> out);

 private:
  const SafetensorsFile& file(const std::string& name);  // until the next call
  // Calls `visit` with the slice's file and the tensor in it. An Error of the file gets the checkpoint's name.
  template <class Visit>
  void in_file(const std::string& tensor, const StoredSlice& slice, const Visit& visit);
  std::uint64_t stored_checksum(const std::string& tensor, const StoredSlice& slice);
  void read_tensor(const TensorSpec& spec, StateKind kind, Range wanted, float* out);

  std::string folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;  // that are open
};

// Loads one unit's state into its memory: the parameters, the master weights where the layout has
// them, and this rank's part of the moments.
void load_state(CheckpointReader& checkpoint, const UnitSpec& spec, const StateLayout& state, Device& device,
                void* memory);

}  // namespace espalier::torchrt
