// Records as scontrol prints them: Key=Value, with lines separated by a newline and three spaces,
// or all on one line. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/json.hpp"

namespace espalier::cli {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using Record = std::vector<Pairs>;  // line by line

// Ends with a newline. Without -o an empty line follows, as in scontrol.
std::string format(const Record& record, bool one_line);

// Absent values are "(null)".
std::string text_or_null(const std::string& text);
std::string number_text(double value, int digits);                            // 0 and negative: "(null)"
std::string time_text(double seconds_since_epoch);                            // local, with milliseconds; 0: "(null)"
std::string user_text(std::uint32_t uid);                                     // "alice(1000)"
std::string percent_text(const Json& share);                                  // "1.2%"; no number: "(null)"
std::string gpu_list(const std::string& node, const std::vector<int>& gpus);  // "n1/[0-1,3]", "n1/2"
std::string holdings_text(const Json& holdings, bool with_jobs);              // "n1/[0-1]", "12:n2/[0-3]"
std::string plan_text(const Json& plan);    // "pp2/dp1/tp1"; differing stages: "pp2/dp1+2/tp1"
std::string layers_text(const Json& plan);  // "4+4"
std::string ranks_text(const Json& plan);   // "n1/0,n1/1"

}  // namespace espalier::cli
