#include "planner/wire/event.hpp"

#include <sstream>

#include "planner/core/error.hpp"
#include "planner/wire/event.h"

namespace espalier::wire {
namespace {
bool is_word(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
}
}  // namespace

Event parse_event(std::string_view text) {
  if (text.size() > ESPALIER_EVENT_MAX)
    throw Error("event: longer than " + std::to_string(ESPALIER_EVENT_MAX) + " bytes");
  for (const char c : text)
    if (c < ' ' || c > '~') throw Error("event: holds a byte that is not printable ASCII");
  std::istringstream words{std::string(text)};
  std::string word;
  if (!(words >> word) || word != ESPALIER_EVENT_MAGIC) throw Error("event: not of version " ESPALIER_EVENT_MAGIC);
  Event event;
  if (!(words >> event.name) || !is_word(event.name)) throw Error("event: has no name");
  while (words >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || !is_word(word.substr(0, equals)))
      throw Error("event " + event.name + ": \"" + word + "\" is not key=value");
    if (!event.fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      throw Error("event " + event.name + ": key " + word.substr(0, equals) + " twice");
  }
  return event;
}

}  // namespace espalier::wire
