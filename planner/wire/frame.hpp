// Framing of all streams. A frame is 4 bytes "ESP" + protocol version, a 4-byte big-endian length,
// then a JSON object {"type": ..., ...}. The length is at most kMaxFrame. A peer's bytes are not
// trusted: decode() throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/core/json.hpp"

namespace espalier::wire {

inline constexpr unsigned char kProtocolVersion = 1;
inline constexpr std::size_t kHeaderBytes = 8;
inline constexpr std::size_t kMaxStranger = 16u << 10;  // for a peer without an identity yet
inline constexpr std::size_t kMaxFrame = 8u << 20;      // a large topology's XML is below 1 MiB

struct Frame {
  std::string type;
  Json body = Json::object();  // without "type"
};

std::string encode(const Frame& frame);

// Decodes the complete frame at the front of `buffer`. Returns the number of bytes it used;
// nullopt: more bytes are needed. Throws Error on a foreign magic, another protocol version, an
// oversized length, or a body that is not a JSON object with a string "type".
std::optional<std::size_t> decode(std::string_view buffer, Frame& frame, std::size_t limit = kMaxFrame);

}  // namespace espalier::wire
