// Reads a file's text and gunzips it if needed.
#pragma once

#include <string>

namespace espalier::cli {

// Throws Error when the file cannot be read, is a damaged archive, or holds over 4 GiB.
std::string read_maybe_gzipped(const std::string& path);

}  // namespace espalier::cli
