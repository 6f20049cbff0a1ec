// Memory for a file in memory, had at once.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace espalier::torchrt {

// Reserves the file's first `bytes`; 0, or errno's number. `fallocate`: posix_fallocate, but for tests.
//
// The file is reserved in pieces of some milliseconds. Some kernels (before 6.18, where it was not seen) end a call
// with EINTR when any signal comes, also one that only stops the process, and take back what the call had reserved. A
// piece is then reserved again. The whole file might never be.
template <class Fallocate = int (*)(int, off_t, off_t)>
int reserve_file(int fd, std::size_t bytes, Fallocate fallocate = ::posix_fallocate) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    const int failure = fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(piece));
    if (failure == EINTR) continue;
    if (failure != 0) return failure;
    at += piece;
  }
  return 0;
}

}  // namespace espalier::torchrt
