#include "torchrt/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

InputFile::InputFile(const std::string& path, const std::string& what)
    : path_(path), what_(what), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!fd_) throw Error(what + " " + path + ": " + std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw Error(what + " " + path + ": is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t first, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(first));
    const int reason = count < 0 ? errno : 0;
    if (reason == EINTR) continue;
    if (count <= 0)
      throw Error(what_ + " " + path_ + ": byte " + std::to_string(first) +
                  (count < 0 ? " cannot be read: " + std::string(std::strerror(reason)) +
                                   "; look at the file system, then start again"
                             : " is not there any more: the file was truncated while it was in use; restore it, then "
                               "start again"));
    first += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace espalier::torchrt
