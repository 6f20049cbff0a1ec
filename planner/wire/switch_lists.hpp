// Lists of a pipeline's schedule, as a field of `switch` in place. A program whose hello does not say `lists` would not
// look at it.
#pragma once

#include <string>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/wire/frame.hpp"

namespace espalier::wire {

// `csv`: as planner/core/pipeline/csv.hpp; empty: the frame stays as it is.
inline Frame with_lists(Frame frame, const std::string& csv) {
  if (!csv.empty()) frame.body["lists"] = csv;
  return frame;
}

// Empty: the frame has none. Throws Error when they are no text.
inline std::string lists_of(const Frame& frame) {
  const auto found = frame.body.find("lists");
  if (found == frame.body.end()) return "";
  if (!found->is_string()) throw Error("switch.lists: must be a text");
  return found->get<std::string>();
}

}  // namespace espalier::wire
