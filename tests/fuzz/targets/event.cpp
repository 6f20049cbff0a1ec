// Datagrams of the plugins.
#include "planner/wire/event.hpp"
#include "planner/core/error.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {

void event(std::string_view input) {
  try {
    const wire::Event read = wire::parse_event(input);
    require(!read.name.empty());
    for (const auto& [key, value] : read.fields) require(!key.empty() && value.find(' ') == std::string::npos);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
