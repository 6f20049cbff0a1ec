// One safetensors file: eight bytes of length, a JSON header, the tensors' bytes
// (https://github.com/huggingface/safetensors, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "torchrt/mapped_file.hpp"
#include "torchrt/safetensors/element_type.hpp"

namespace espalier::torchrt {

struct StoredTensor {
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // in the mapped file, at any alignment
  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size() / size_of(type)); }
};

// Memory-mapped; the header is checked whole when it is opened: a file that is shorter than it says, tensors that
// overlap, leave a hole, lie outside or disagree with their shape, and unknown types are an Error that names file and
// tensor. The bytes themselves are not looked at.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // nullptr: there is none of this name.
  const StoredTensor* find(const std::string& name) const;

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace espalier::torchrt
