// Writes files that must be complete. Every byte is on disk at the end, or an Error gives the
// reason.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// All throw Error "PATH: reason". A write beyond RLIMIT_FSIZE is such an error when SIGXFSZ is
// ignored.
UniqueFd create_file(const std::string& path);  // empties an existing file
void write_all(int fd, std::span<const std::byte> bytes, const std::string& path);
void finish_file(UniqueFd file, const std::string& path);  // fsync and close
void write_whole_file(const std::string& path, const std::string& text);
void sync_directory(const std::string& path);

}  // namespace espalier::torchrt
