#include "torchrt/write_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

[[noreturn]] void fail(const std::string& path) { throw Error(path + ": cannot be written: " + std::strerror(errno)); }

}  // namespace

UniqueFd create_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) fail(path);
  return file;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;  // write(2) takes at most 2 GiB
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void finish_file(UniqueFd file, const std::string& path) {
  if (::fsync(file.get()) != 0) fail(path);
}

void write_whole_file(const std::string& path, const std::string& text) {
  UniqueFd file = create_file(path);
  write_all(file.get(), std::as_bytes(std::span(text)), path);
  finish_file(std::move(file), path);
}

void sync_directory(const std::string& path) {
  const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) fail(path);
}

}  // namespace espalier::torchrt
