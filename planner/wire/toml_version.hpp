// What differs between toml11 3 (Debian 12) and 4. The members themselves are asked for, not the version.
#pragma once

#include <cstddef>
#include <string>
#include <toml.hpp>

namespace espalier::wire {

// The first line of toml11's location.
template <class Location>
std::size_t toml_first_line(const Location& location) {
  if constexpr (requires { location.line(); }) {
    return location.line();
  } else {
    return location.first_line_number();
  }
}

// The line on which a value stands.
template <class Value>
std::size_t toml_line(const Value& value) {
  return toml_first_line(value.location());
}

// The line of a toml::syntax_error; 1 when it names none.
template <class SyntaxError>
std::size_t toml_error_line(const SyntaxError& error) {
  if constexpr (requires { error.location(); }) {
    return toml_first_line(error.location());
  } else {
    const auto& errors = error.errors();
    if (errors.empty() || errors.front().locations().empty()) return 1;
    return toml_first_line(errors.front().locations().front().first);
  }
}

// The text of a value that is a string. It lives as long as the value.
template <class Value>
const std::string& toml_string(const Value& value) {
  const auto& text = value.as_string();
  if constexpr (requires { text.str; }) {
    return text.str;
  } else {
    return text;
  }
}

}  // namespace espalier::wire
