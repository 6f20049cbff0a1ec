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
  // `what` begins every message ("data file"). Throws Error when the file is not there or is not a regular file, and
  // UnreadableError when the system cannot open it.
  InputFile(const std::string& path, const std::string& what);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills `into` with the bytes from `first` on. Throws Error that names the file, the byte and the reason: an
  // UnreadableError, unless the file ends before.
  void read(std::uint64_t first, std::span<std::byte> into) const;
  // All bytes up to the file's end, wherever that is now. Throws as read().
  std::string text() const;

 private:
  // How many bytes were read; 0: the file has ended.
  std::size_t read_some(std::uint64_t first, std::span<std::byte> into) const;

  std::string path_, what_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

}  // namespace espalier::torchrt
