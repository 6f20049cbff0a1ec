// A file that is read at any position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// Open until it is destroyed. It is not mapped: where the file system cannot read a mapped page, or the file was
// truncated, the process ends by SIGBUS, which names neither the file nor the reason. Const methods may be called from
// any thread.
class InputFile {
 public:
  // `what` begins every message ("data file"). Throws Error when the file cannot be opened or is not a regular file.
  InputFile(const std::string& path, const std::string& what);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills `into` with the bytes from `first` on. Throws Error that names the file, the byte and the reason.
  void read(std::uint64_t first, std::span<std::byte> into) const;

 private:
  std::string path_, what_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

}  // namespace espalier::torchrt
