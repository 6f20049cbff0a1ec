// Writes one safetensors file from front to back, so that only a piece of it is in memory at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "torchrt/device/unique_fd.hpp"
#include "torchrt/safetensors/element_type.hpp"

namespace espalier::torchrt {

struct TensorToStore {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes() const;
};

// Every method throws Error that names the file, also when the disk is full. For one thread.
class SafetensorsWriter {
 public:
  // Creates `path` and writes the header. The bytes of `tensors` follow by append(), in this order.
  SafetensorsWriter(const std::string& path, const std::vector<TensorToStore>& tensors,
                    const std::map<std::string, std::string>& metadata = {});
  void append(std::span<const std::byte> bytes);
  // Returns when everything is on disk. All bytes must have been given.
  void finish();

 private:
  void write(std::span<const std::byte> bytes);
  std::string path_;
  UniqueFd file_;
  std::uint64_t missing_ = 0;
};

}  // namespace espalier::torchrt
