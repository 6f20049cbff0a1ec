// What a checkpoint holds, by logical coordinate: which elements of which tensor's state are where. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "torchrt/range.hpp"

namespace espalier::torchrt {

// AdamW's state of one parameter, all in float32 (of a bfloat16 model its master weights: its parameters are these,
// rounded).
enum class StateKind : std::uint8_t { parameter, first_moment, second_moment };
constexpr std::array kStateKinds = {StateKind::parameter, StateKind::first_moment, StateKind::second_moment};
const char* name_of(StateKind kind);

// Elements of one rank's shard of a tensor. The shard is the concatenation of `rows` of the whole, of each `columns`
// (as in TensorSpec); `elements` counts in the shard, row by row.
struct StoredSlice {
  std::string file;  // safetensors, in the checkpoint's folder
  std::string key;   // tensor in it
  std::vector<Range> rows;
  Range columns;
  Range elements;
  std::uint64_t checksum = 0;  // XXH3 of the stored bytes
  bool operator==(const StoredSlice&) const = default;
};

struct StoredState {
  std::vector<std::int64_t> shape;  // of the whole tensor, in the runtime's orientation
  std::array<std::vector<StoredSlice>, kStateKinds.size()> slices;
  const std::vector<StoredSlice>& of(StateKind kind) const { return slices[static_cast<std::size_t>(kind)]; }
  std::vector<StoredSlice>& of(StateKind kind) { return slices[static_cast<std::size_t>(kind)]; }
  bool operator==(const StoredState&) const = default;
};

struct Manifest {
  std::int64_t step = 0;                       // last one done
  std::uint64_t samples = 0;                   // position in the data: samples of the whole training so far
  nlohmann::json facts;                        // what a configuration must agree with (facts.hpp)
  std::map<std::string, StoredState> tensors;  // by Hugging Face's name
  bool operator==(const Manifest&) const = default;
};

// The text holds a checksum of itself.
std::string to_text(const Manifest& manifest);
// Throws Error, beginning with `name`, when the text is no manifest, is damaged, or does not place every element of
// each tensor exactly as often as needed.
Manifest manifest_from(const std::string& text, const std::string& name);

// What one rank wrote: a manifest without step, samples and facts. merge() adds it to `whole`; throws Error when both
// disagree about a tensor's shape.
void merge(Manifest& whole, const Manifest& part);
// Throws Error when elements of a tensor are missing or there twice, by number.
void check_complete(const Manifest& manifest, const std::string& name);

}  // namespace espalier::torchrt
