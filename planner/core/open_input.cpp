#include "planner/core/open_input.hpp"

#include <cerrno>
#include <filesystem>

namespace espalier {

bool is_folder(const std::string& path) {
  std::error_code problem;
  return std::filesystem::is_directory(path, problem);
}

std::ifstream open_input(const std::string& path) {
  std::ifstream in;
  if (is_folder(path)) {
    in.setstate(std::ios::failbit);
    errno = EISDIR;
    return in;
  }
  errno = 0;
  in.open(path, std::ios::binary);
  return in;
}

}  // namespace espalier
