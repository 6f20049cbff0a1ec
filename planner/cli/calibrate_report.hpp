// What `espalier calibrate` prints and writes.
#pragma once

#include <string>

#include "planner/core/json.hpp"
#include "planner/core/probe/findings.hpp"

namespace espalier::cli {

std::string calibrate_table(const Findings& findings);
Json calibrate_json(const Findings& findings, const ProbeReport& report);

// Replaces `path` at once: readers see the old file or the new one. Throws Error.
void replace_file(const std::string& path, const std::string& text);

}  // namespace espalier::cli
