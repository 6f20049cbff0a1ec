// A whole file as read-only memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace espalier::torchrt {

// Movable, unmapped on destruction. Pages come from disk when they are touched, so opening costs
// nothing, however large the file is.
class MappedFile {
 public:
  // `what` begins every message ("data file"). Throws Error when the file cannot be opened or
  // mapped, or is not a regular file. An empty file maps to an empty span.
  MappedFile(const std::string& path, const std::string& what);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace espalier::torchrt
