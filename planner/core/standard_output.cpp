#include "planner/core/standard_output.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "planner/core/error.hpp"

namespace espalier {

void flush_standard_output(std::FILE* stream) {
  errno = 0;
  const bool flushed = std::fflush(stream) == 0;
  const int problem = errno;
  // An earlier write may have failed, and left nothing to flush.
  if (flushed && std::ferror(stream) == 0) return;
  throw Error("standard output: cannot be written" +
              (problem != 0 ? std::string(": ") + std::strerror(problem) : std::string("; is the disk full?")));
}

}  // namespace espalier
