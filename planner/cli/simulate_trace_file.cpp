#include "planner/cli/simulate_trace_file.hpp"

#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::cli {

// zlib passes a file through unchanged if it is no gzip archive.
std::string read_maybe_gzipped(const std::string& path) {
  struct stat what {};
  if (stat(path.c_str(), &what) != 0)
    throw Error(path + ": cannot be read: " + std::strerror(errno) + "; name a file of jobs");
  if (S_ISDIR(what.st_mode)) throw Error(path + ": is a folder; name a file of jobs");
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) throw Error(path + ": cannot be read: " + std::strerror(errno) + "; name a file of jobs");
  std::string text;
  std::vector<char> buffer(1 << 18);
  for (;;) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got < 0) throw Error(path + ": is a damaged gzip archive; pack or fetch it again");
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxTraceText)
      throw Error(path + ": holds over 4 GiB; cut the part that is to be simulated out of it");
  }
  int state = Z_OK;
  gzerror(file.get(), &state);
  if (state != Z_OK && state != Z_STREAM_END) throw Error(path + ": is a damaged gzip archive; pack or fetch it again");
  return text;
}

}  // namespace espalier::cli
