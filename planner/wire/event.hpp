// Parses the datagram events of event.h.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace espalier::wire {

struct Event {
  std::string name;
  std::map<std::string, std::string> fields;
};

// Throws Error when `text` does not have exactly event.h's form.
Event parse_event(std::string_view text);

}  // namespace espalier::wire
