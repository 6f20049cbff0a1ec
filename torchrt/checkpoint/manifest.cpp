#include "torchrt/checkpoint/manifest.hpp"

#include <cstdio>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "torchrt/checksum.hpp"

namespace espalier::torchrt {

namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "espalier-checkpoint-1";
constexpr const char* kChecksum = "checksum";

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t from_hexadecimal(const std::string& text) {
  std::size_t used = 0;
  const std::uint64_t value = std::stoull(text, &used, 16);
  if (text.size() != 16 || used != 16) throw std::invalid_argument("a checksum is 16 hexadecimal digits");
  return value;
}

// nlohmann converts a number of any size and kind, which C++ does not define for those that do not fit.
template <class Number>
Number whole(const Json& json) {
  if (!json.is_number_integer() || !(json.is_number_unsigned() ? std::in_range<Number>(json.get<std::uint64_t>())
                                                               : std::in_range<Number>(json.get<std::int64_t>())))
    throw std::invalid_argument("a number is no whole one, or too large");
  return json.get<Number>();
}

Json json_of(const Range& range) { return Json::array({range.first, range.count}); }

Range range_from(const Json& json) {
  if (json.size() != 2) throw std::invalid_argument("a range is a first and a count");
  const Range range{whole<std::int64_t>(json.at(0)), whole<std::int64_t>(json.at(1))};
  if (range.first < 0 || range.count < 0 || range.first > INT64_MAX - range.count)
    throw std::invalid_argument("a range is negative");
  return range;
}

Json json_of(const StoredSlice& slice) {
  Json rows = Json::array();
  for (const Range& range : slice.rows) rows.push_back(json_of(range));
  return {{"file", slice.file},
          {"key", slice.key},
          {"rows", rows},
          {"columns", json_of(slice.columns)},
          {"elements", json_of(slice.elements)},
          {kChecksum, hexadecimal(slice.checksum)}};
}

StoredSlice slice_from(const Json& json) {
  StoredSlice slice;
  slice.file = json.at("file").get<std::string>();
  if (slice.file.find('/') != std::string::npos) throw std::invalid_argument("a file lies outside the folder");
  slice.key = json.at("key").get<std::string>();
  for (const Json& range : json.at("rows")) slice.rows.push_back(range_from(range));
  slice.columns = range_from(json.at("columns"));
  slice.elements = range_from(json.at("elements"));
  slice.checksum = from_hexadecimal(json.at(kChecksum).get<std::string>());
  return slice;
}

Json json_of(const StoredState& state) {
  Json json = {{"shape", state.shape}};
  for (const StateKind kind : kStateKinds) {
    Json& slices = json[name_of(kind)] = Json::array();
    for (const StoredSlice& slice : state.of(kind)) slices.push_back(json_of(slice));
  }
  return json;
}

// Throws when the slice reaches beyond the tensor.
void check_slice(const StoredSlice& slice, const std::vector<std::int64_t>& shape) {
  const std::int64_t all_columns = shape.size() == 2 ? shape[1] : 1;
  std::int64_t rows = 0;
  for (const Range& range : slice.rows) {
    if (range.end() > shape[0]) throw std::invalid_argument("rows lie beyond the tensor");
    rows += range.count;
    if (rows > shape[0]) throw std::invalid_argument("rows are there twice");
  }
  if (slice.columns.end() > all_columns) throw std::invalid_argument("columns lie beyond the tensor");
  if (slice.elements.end() > rows * slice.columns.count) throw std::invalid_argument("elements lie beyond the shard");
}

StoredState state_from(const Json& json) {
  StoredState state;
  for (const Json& size : json.at("shape")) state.shape.push_back(whole<std::int64_t>(size));
  if (state.shape.empty() || state.shape.size() > 2) throw std::invalid_argument("a tensor has one or two dimensions");
  for (const std::int64_t size : state.shape)
    if (size < 1 || size > INT32_MAX) throw std::invalid_argument("a tensor's shape is absurd");
  for (const StateKind kind : kStateKinds)
    for (const Json& slice : json.at(name_of(kind))) {
      state.of(kind).push_back(slice_from(slice));
      check_slice(state.of(kind).back(), state.shape);
    }
  return state;
}

std::string checksum_of(const Json& json) {
  const std::string text = json.dump();
  return hexadecimal(checksum(text.data(), text.size()));
}

}  // namespace

const char* name_of(StateKind kind) {
  switch (kind) {
    case StateKind::parameter:
      return "parameter";
    case StateKind::first_moment:
      return "first_moment";
    case StateKind::second_moment:
      return "second_moment";
  }
  return "";
}

std::string to_text(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"step", manifest.step},
               {"samples", manifest.samples},
               {"facts", manifest.facts},
               {"tensors", Json::object()}};
  for (const auto& [name, state] : manifest.tensors) json["tensors"][name] = json_of(state);
  json[kChecksum] = checksum_of(json);
  return json.dump(1) + "\n";
}

Manifest manifest_from(const std::string& text, const std::string& name) {
  try {
    Json json = parse_json(text);
    if (json.at("format") != kFormat) throw std::invalid_argument("its format is not " + std::string(kFormat));
    const std::string expected = json.at(kChecksum).get<std::string>();
    json.erase(kChecksum);
    if (checksum_of(json) != expected) throw std::invalid_argument("its checksum differs");
    Manifest manifest;
    manifest.step = whole<std::int64_t>(json.at("step"));
    manifest.samples = whole<std::uint64_t>(json.at("samples"));
    manifest.facts = json.at("facts");
    for (const auto& [tensor, state] : json.at("tensors").items()) manifest.tensors.emplace(tensor, state_from(state));
    return manifest;
  } catch (const std::exception& problem) {
    throw Error(name + ": is damaged: " + problem.what());
  }
}

void merge(Manifest& whole, const Manifest& part) {
  for (const auto& [name, state] : part.tensors) {
    StoredState& all = whole.tensors[name];
    if (all.shape.empty()) all.shape = state.shape;
    if (all.shape != state.shape) throw Error("tensor " + name + ": ranks disagree about its shape");
    for (const StateKind kind : kStateKinds)
      all.of(kind).insert(all.of(kind).end(), state.of(kind).begin(), state.of(kind).end());
  }
}

void check_complete(const Manifest& manifest, const std::string& name) {
  for (const auto& [tensor, state] : manifest.tensors) {
    std::int64_t needed = 1;
    for (const std::int64_t size : state.shape) needed *= size;
    for (const StateKind kind : kStateKinds) {
      std::int64_t held = 0;
      // What is too much for a number is too much for the tensor.
      for (const StoredSlice& slice : state.of(kind))
        if (__builtin_add_overflow(held, slice.elements.count, &held)) held = INT64_MAX;
      if (held != needed)
        throw Error(name + ": is partial: of tensor " + tensor + " (" + name_of(kind) + ") it holds " +
                    std::to_string(held) + " of " + std::to_string(needed) + " elements");
    }
  }
}

}  // namespace espalier::torchrt
