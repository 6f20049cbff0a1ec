#include "torchrt/safetensors/file.hpp"

#include <algorithm>
#include <tuple>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::uint64_t kLengthBytes = 8;

struct Place {
  std::uint64_t first = 0, bytes = 0;  // in the file
};

[[noreturn]] void refuse(const std::string& path, const std::string& problem) {
  throw Error("safetensors file " + path + ": " + problem);
}

std::string header_text(const InputFile& file) {
  const std::string& path = file.path();
  if (file.size() < kLengthBytes) refuse(path, "is truncated: it has no header");
  std::uint64_t length = 0;  // little endian, as all supported machines are
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxSafetensorsHeader)
    refuse(path, "is none: its header would be of " + std::to_string(length) + " bytes");
  if (length > file.size() - kLengthBytes)
    refuse(path, "is truncated: its header is of " + std::to_string(length) + " bytes, the file of " +
                     std::to_string(file.size()));
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

// One entry of the header. `data` is the place of all bytes after the header; the entry must lie within it.
class Entry {
 public:
  Entry(const std::string& path, const std::string& name, const Json& json) : path_(path), name_(name), json_(json) {}

  StoredTensor read(const Place& data) {
    if (!json_.is_object() || json_.size() != 3) fail("its entry must hold dtype, shape and data_offsets");
    StoredTensor tensor;
    const std::string type = text("dtype");
    const auto known = element_type(type);
    if (!known) fail("unknown dtype \"" + type + "\"");
    tensor.type = *known;
    tensor.shape = numbers("shape");
    const std::vector<std::int64_t> offsets = numbers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) fail("data_offsets must be a begin and an end");
    const auto first = static_cast<std::uint64_t>(offsets[0]), end = static_cast<std::uint64_t>(offsets[1]);
    if (end > data.bytes)
      fail("ends at byte " + std::to_string(end) + " of " + std::to_string(data.bytes) + "; the file is truncated");
    if (end - first != expected_bytes(tensor))
      fail("has " + std::to_string(end - first) + " bytes, its shape needs " + std::to_string(expected_bytes(tensor)));
    tensor.first = data.first + first;
    tensor.bytes = end - first;
    return tensor;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const { refuse(path_, "tensor " + name_ + ": " + problem); }

  const Json& member(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(std::string(key) + " is missing");
    return *found;
  }

  std::string text(const char* key) const {
    const Json& value = member(key);
    if (!value.is_string()) fail(std::string(key) + " must be a string");
    return value.get<std::string>();
  }

  std::vector<std::int64_t> numbers(const char* key) const {
    const Json& value = member(key);
    if (!value.is_array()) fail(std::string(key) + " must be a list of numbers");
    std::vector<std::int64_t> result;
    for (const Json& item : value) {
      if (!item.is_number_unsigned() || item.get<std::uint64_t>() > INT64_MAX)
        fail(std::string(key) + " must be a list of numbers");
      result.push_back(item.get<std::int64_t>());
    }
    return result;
  }

  std::uint64_t expected_bytes(const StoredTensor& tensor) const {
    std::uint64_t bytes = size_of(tensor.type);
    for (const std::int64_t size : tensor.shape)
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) fail("its shape is absurd");
    return bytes;
  }

  const std::string& path_;
  const std::string& name_;
  const Json& json_;
};

// Checks that the tensors together use every byte exactly once.
void check_coverage(const std::string& path, const std::map<std::string, StoredTensor>& tensors, const Place& data) {
  std::vector<std::tuple<std::uint64_t, std::uint64_t, const std::string*>> places;
  for (const auto& [name, tensor] : tensors) places.emplace_back(tensor.first, tensor.bytes, &name);
  std::sort(places.begin(), places.end());
  std::uint64_t end = data.first;
  for (const auto& [first, bytes, name] : places) {
    if (first < end) refuse(path, "tensor " + *name + ": overlaps another");
    if (first > end) refuse(path, "tensor " + *name + ": there is a hole before it");
    end = first + bytes;
  }
  if (end != data.first + data.bytes)
    refuse(path, "has " + std::to_string(data.first + data.bytes - end) + " bytes that belong to no tensor");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path, "safetensors file") {
  const std::string text = header_text(file_);
  const Json header = try_json(text);
  if (!header.is_object()) refuse(path, "its header is no JSON object");
  const std::uint64_t start = kLengthBytes + text.size();
  const Place data{start, file_.size() - start};
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__") tensors_.emplace(name, Entry(path, name, entry).read(data));
  check_coverage(path, tensors_, data);
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const {
  ESPALIER_INVARIANT(offset <= tensor.bytes && into.size() <= tensor.bytes - offset);
  file_.read(tensor.first + offset, into);
}

}  // namespace espalier::torchrt
