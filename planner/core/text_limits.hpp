// Limits on the texts of others. Parsers of JSON and TOML, and what frees and prints their values,
// call themselves for each level: a text nested without end would end the process. So each text is
// looked through before a parser gets it. All programs read such texts by these functions.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace espalier {

inline constexpr int kMaxDepth = 64;                               // no text of Espalier comes near it
inline constexpr std::size_t kMaxTomlText = 16u << 20;             // bytes
inline constexpr std::size_t kMaxJsonText = std::size_t{1} << 30;  // a checkpoint's manifest names every slice

// Greatest depth of lists and objects. Text that is no JSON has one, too.
int json_depth(std::string_view text);
// The same of arrays, inline tables, and the tables that a dotted key makes.
int toml_depth(std::string_view text);

// Throws Error when the text is too long or nested too deeply, nlohmann's exceptions when it is no
// JSON.
nlohmann::json parse_json(std::string_view text);
nlohmann::json parse_json(std::istream& in);
// A discarded value instead of an exception.
nlohmann::json try_json(std::string_view text);
nlohmann::json try_json(std::istream& in);

// Throws Error without a file name when toml::parse must not get the text.
void check_toml(std::string_view text);
// The file's or stream's text; throws Error when it has more than `most` bytes.
std::string read_text(std::istream& in, std::size_t most);

}  // namespace espalier
