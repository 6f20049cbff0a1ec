// A checkpoint's table of contents: for each tensor, which file holds which elements of its state.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "torchrt/range.hpp"

namespace espalier::torchrt {

// AdamW's state of one parameter, all in float32. For a bfloat16 model, `parameter` means the
// master weights; rounding them gives the model's parameters.
enum class StateKind : std::uint8_t { parameter, first_moment, second_moment };
constexpr std::array kStateKinds = {StateKind::parameter, StateKind::first_moment, StateKind::second_moment};
const char* name_of(StateKind kind);

// A part of one rank's shard of a tensor. The shard is the concatenation of the row ranges `rows`
// of the whole tensor, restricted to `columns` (as in TensorSpec). `elements` counts within the
// shard, row by row.
struct StoredSlice {
  std::string file;  // safetensors file in the checkpoint's folder
  std::string key;   // tensor in this file
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
  std::int64_t step = 0;                       // the last finished step
  std::uint64_t samples = 0;                   // position in the data, in samples
  nlohmann::json facts;                        // settings that must agree (facts.hpp)
  std::map<std::string, StoredState> tensors;  // by Hugging Face's name
  bool operator==(const Manifest&) const = default;
};

// The text holds a checksum of itself.
std::string to_text(const Manifest& manifest);
// Throws Error, beginning with `name`, when the text is no manifest or is damaged. Whether all
// elements are there is check_complete()'s question.
Manifest manifest_from(const std::string& text, const std::string& name);

// Adds `part` to `whole`. `part` is one rank's manifest, without step, samples and facts. Throws
// Error when both disagree about a tensor's shape.
void merge(Manifest& whole, const Manifest& part);
// Throws Error when a tensor has fewer or more stored elements than it needs. Only numbers are
// compared: a missing element and a doubled one cancel out.
void check_complete(const Manifest& manifest, const std::string& name);

}  // namespace espalier::torchrt
