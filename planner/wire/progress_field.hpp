// A worker's word that it gets on with work that is no step, e.g. a validation, as a field of its `heartbeat`. A
// launcher of an older version passes over it.
#pragma once

#include "planner/core/error.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::wire {

inline Frame heartbeat_with_progress() {
  Frame frame = to_frame(Heartbeat{});
  frame.body["progress"] = true;
  return frame;
}

// Throws Error when the field is there and neither true nor false.
inline bool tells_progress(const Frame& heartbeat) {
  const auto found = heartbeat.body.find("progress");
  if (found == heartbeat.body.end()) return false;
  if (!found->is_boolean()) throw Error("heartbeat.progress: must be true or false");
  return found->get<bool>();
}

}  // namespace espalier::wire
