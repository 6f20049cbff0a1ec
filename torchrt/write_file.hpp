// Writing files that must be whole: every byte is written and on disk, or an Error says what went wrong.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// All throw Error "PATH: reason". A write that would exceed RLIMIT_FSIZE is such an error when SIGXFSZ is ignored.
UniqueFd create_file(const std::string& path);  // empties an existing one
void write_all(int fd, std::span<const std::byte> bytes, const std::string& path);
void finish_file(UniqueFd file, const std::string& path);  // fsync and close
void write_whole_file(const std::string& path, const std::string& text);
void sync_directory(const std::string& path);

}  // namespace espalier::torchrt
