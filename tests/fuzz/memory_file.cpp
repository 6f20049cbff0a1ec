#include "tests/fuzz/memory_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

MemoryFile::MemoryFile(std::string_view content) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(static_cast<bool>(fd_));
  while (!content.empty()) {
    const ssize_t written = ::write(fd_.get(), content.data(), content.size());
    require(written > 0);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

}  // namespace espalier::fuzz
