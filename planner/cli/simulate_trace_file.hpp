// A file's text, as it is or gunzipped.
#pragma once

#include <string>

namespace espalier::cli {

// Throws Error: it cannot be read, is a damaged archive, or holds over 4 GiB.
std::string read_maybe_gzipped(const std::string& path);

}  // namespace espalier::cli
