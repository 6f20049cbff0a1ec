// Framing of every stream between parts: 4 bytes "ESP" + protocol version, 4 bytes big-endian length, then a JSON
// object
// {"type": ..., ...}. Length is at most kMaxFrame. Nothing a peer sends is trusted: decode throws Error.
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
inline constexpr std::size_t kMaxStranger = 16u << 10;  // of a peer that has not said who it is
inline constexpr std::size_t kMaxFrame = 8u << 20;      // a large node's topology XML is well below 1 MiB

struct Frame {
  std::string type;
  Json body = Json::object();  // without "type"
};

std::string encode(const Frame& frame);

// Takes one complete frame off the front of `buffer` and returns how many bytes it used; nullopt: more bytes are
// needed. Throws Error on a foreign magic, another protocol version, an oversized length, or a body that is not a JSON
// object with a string "type".
std::optional<std::size_t> decode(std::string_view buffer, Frame& frame, std::size_t limit = kMaxFrame);

}  // namespace espalier::wire
