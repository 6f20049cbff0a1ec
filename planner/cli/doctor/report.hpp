// The findings of `espalier doctor` as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/cli/doctor/facts.hpp"
#include "planner/cli/doctor/finding.hpp"

namespace espalier::cli::doctor {

// A line for each finding, its remedies below it, and a line that counts.
std::string report_text(const std::vector<Finding>& findings);

// {"host", "administrator", "verdict", "checks": [{"name", "verdict", "found", "remedies": [{"file", "line",
// "within"}]}]}
std::string report_json(const std::vector<Finding>& findings, const Facts& facts);

// The remedies by file, each line once; commands come last. Empty: nothing is to be changed.
std::string fix_plan(const std::vector<Finding>& findings);

// The worst of them; ok where there is none.
Verdict worst(const std::vector<Finding>& findings);

}  // namespace espalier::cli::doctor
