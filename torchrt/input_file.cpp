#include "torchrt/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"
#include "torchrt/unreadable_error.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::size_t kTextAtOnce = 1 << 16;

// The file is not there at all. Every other reason may pass.
bool absent(int reason) { return reason == ENOENT || reason == ENOTDIR || reason == ELOOP || reason == ENAMETOOLONG; }

std::string told(int reason) {
  const bool limit = reason == EMFILE || reason == ENFILE;
  return std::string(std::strerror(reason)) + "; " +
         (limit ? "raise the limit of open files" : "look at the file system") + ", then start again";
}

UniqueFd opened(const std::string& path, const std::string& what) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) return fd;
  const int reason = errno;
  if (absent(reason)) throw Error(what + " " + path + ": " + std::strerror(reason));
  throw UnreadableError(what + " " + path + ": cannot be opened: " + told(reason));
}

}  // namespace

InputFile::InputFile(const std::string& path, const std::string& what)
    : path_(path), what_(what), fd_(opened(path, what)) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0)
    throw UnreadableError(what + " " + path + ": cannot be looked at: " + told(errno));
  if (!S_ISREG(status.st_mode)) throw Error(what + " " + path + ": is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t InputFile::read_some(std::uint64_t first, std::span<std::byte> into) const {
  for (;;) {
    const ssize_t count = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(first));
    if (count >= 0) return static_cast<std::size_t>(count);
    const int reason = errno;
    if (reason != EINTR)
      throw UnreadableError(what_ + " " + path_ + ": byte " + std::to_string(first) +
                            " cannot be read: " + told(reason));
  }
}

void InputFile::read(std::uint64_t first, std::span<std::byte> into) const {
  while (!into.empty()) {
    const std::size_t count = read_some(first, into);
    if (count == 0)
      throw Error(what_ + " " + path_ + ": byte " + std::to_string(first) +
                  " is not there any more: the file was truncated while it was in use; restore it, then start again");
    first += count;
    into = into.subspan(count);
  }
}

std::string InputFile::text() const {
  std::string text;
  for (std::size_t done = 0;;) {
    text.resize(done + kTextAtOnce);
    const std::size_t count = read_some(done, std::as_writable_bytes(std::span(text).subspan(done)));
    done += count;
    if (count > 0) continue;
    text.resize(done);
    return text;
  }
}

}  // namespace espalier::torchrt
