// One safetensors file: eight bytes of length, a JSON header, and the tensors' bytes
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

// A memory-mapped file. Opening it checks the whole header, but not the tensors' bytes. Throws
// Error that names file and tensor when the file is shorter than its header says, when tensors
// overlap, leave a hole, lie outside or disagree with their shape, and when a type is unknown.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // nullptr: the file has no tensor of this name.
  const StoredTensor* find(const std::string& name) const;

 private:
  std::string path_;
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace espalier::torchrt
