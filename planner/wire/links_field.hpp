// A look at the links between a job's nodes, as a field of a worker's `profile` and of a launcher's `status`. A
// receiver of an older version passes over it.
#pragma once

#include <utility>

#include "planner/core/fields.hpp"
#include "planner/core/link_look.hpp"
#include "planner/wire/frame.hpp"

namespace espalier::wire {

// Where the generation has not looked the frame stays as it is.
inline Frame with_links(Frame frame, const LinkLook& look) {
  if (look.number != 0) frame.body["links"] = json_of(look);
  return frame;
}

// Number 0: the frame has none. Throws Error.
inline LinkLook links_of(const Frame& frame) {
  const auto found = frame.body.find("links");
  if (found == frame.body.end()) return {};
  const UnknownFieldsPass pass;
  return link_look(*found);
}

}  // namespace espalier::wire
