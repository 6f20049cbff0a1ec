#include "planner/core/text_limits.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier {
namespace {

// The place behind the TOML string that begins at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool long_one = text.substr(at, 3) == three;
  at += long_one ? 3 : 1;
  while (at < text.size()) {
    if (quote == '"' && text[at] == '\\') {
      at += 2;
    } else if (long_one && text.substr(at, 3) == three) {
      at += 3;
      // One or two quotes before the end belong to the string.
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    } else if (!long_one && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else {
      ++at;
    }
  }
  return text.size();
}

}  // namespace

JsonSize json_size(std::string_view text) {
  JsonSize size{0, 1};
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
    } else if (c == '[' || c == '{') {
      size.depth = std::max(size.depth, ++depth);
      ++size.values;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' || c == ':') {
      ++size.values;
    }
  }
  return size;
}

int toml_depth(std::string_view text) {
  int depth = 0, dots = 0, most = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = std::max(0, depth - 1);
    if (c == '.') ++dots;
    else if (std::string_view("\n,=[{").find(c) != std::string_view::npos) dots = 0;
    most = std::max(most, depth + dots);
    ++at;
  }
  return most;
}

nlohmann::json parse_json(std::string_view text) {
  if (text.size() > kMaxJsonText) throw Error("it is larger than " + std::to_string(kMaxJsonText) + " bytes");
  const JsonSize size = json_size(text);
  if (size.depth > kMaxDepth) throw Error("it is nested more than " + std::to_string(kMaxDepth) + " levels deep");
  if (size.values > kMaxJsonValues) throw Error("it holds more than " + std::to_string(kMaxJsonValues) + " values");
  return nlohmann::json::parse(text);
}

nlohmann::json parse_json(std::istream& in) { return parse_json(read_text(in, kMaxJsonText)); }

nlohmann::json try_json(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const std::exception&) {
    return nlohmann::json(nlohmann::json::value_t::discarded);
  }
}

nlohmann::json try_json(std::istream& in) {
  try {
    return parse_json(in);
  } catch (const std::exception&) {
    return nlohmann::json(nlohmann::json::value_t::discarded);
  }
}

namespace {
bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}
}  // namespace

// toml11 3 reads beyond a string that is no UTF-8.
void check_toml(std::string_view text) {
  if (text.size() > kMaxTomlText) throw Error("it is larger than " + std::to_string(kMaxTomlText) + " bytes");
  if (toml_depth(text) > kMaxDepth) throw Error("it is nested more than " + std::to_string(kMaxDepth) + " levels deep");
  if (is_utf8(text)) return;
  std::size_t line = 1;
  for (std::size_t end; (end = text.find('\n')) != text.npos && is_utf8(text.substr(0, end)); ++line)
    text.remove_prefix(end + 1);
  throw Error("line " + std::to_string(line) + " is no UTF-8");
}

std::string read_text(std::istream& in, std::size_t most) {
  std::string text;
  char block[65536];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > most) throw Error("it is larger than " + std::to_string(most) + " bytes");
  }
  return text;
}

}  // namespace espalier
