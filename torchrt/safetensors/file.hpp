// One safetensors file: eight bytes of length, a JSON header, and the tensors' bytes
// (https://github.com/huggingface/safetensors, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "torchrt/input_file.hpp"
#include "torchrt/safetensors/element_type.hpp"

namespace espalier::torchrt {

struct StoredTensor {
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t first = 0, bytes = 0;  // its place in the file
  std::int64_t elements() const { return static_cast<std::int64_t>(bytes / size_of(type)); }
};

// Opening a file checks the whole header, but reads none of the tensors' bytes. Throws Error that
// names file and tensor when the file is shorter than its header says, when tensors overlap, leave
// a hole, lie outside or disagree with their shape, and when a type is unknown. The file stays open.
// Const methods may be called from any thread.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // nullptr: the file has no tensor of this name.
  const StoredTensor* find(const std::string& name) const;
  // Fills `into` with the tensor's bytes from `offset` on. Throws Error that names the file and the
  // reason, also when the file was truncated after it was opened.
  void read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  InputFile file_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace espalier::torchrt
