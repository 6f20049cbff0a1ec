// Framing of all streams. A frame is
//
//   header   8 bytes: "ESP", the protocol version, the body's length as 4 bytes, big-endian
//   body     a JSON object {"type": ..., ...} of at most kMaxFrame bytes
//   tag      16 bytes (frame_tags.hpp): over TCP only, and only after the login (handshake.hpp)
//
// The length does not count the tag. A peer's bytes are not trusted: decode() throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/core/json.hpp"

namespace espalier::wire {

inline constexpr unsigned char kProtocolVersion = 2;
inline constexpr std::size_t kHeaderBytes = 8;
inline constexpr std::size_t kMaxStranger = 16u << 10;  // for a peer without an identity yet
inline constexpr std::size_t kMaxFrame = 8u << 20;      // a large topology's XML is below 1 MiB

struct Frame {
  std::string type;
  Json body = Json::object();  // without "type"
  std::size_t bytes = 0;       // on the wire, of a frame that was received
};

// All that follows is about header and body. What adds tags to them and checks tags is framing.hpp.
std::string encode(const Frame& frame);
// The same, of a body that is JSON text of an object already: UTF-8, without "type".
std::string encode_text(const std::string& type, std::string_view body);

// The size of the frame that `buffer` begins with. nullopt: its header is not there yet. Throws Error on
// a foreign magic, another protocol version or an oversized length.
std::optional<std::size_t> frame_bytes(std::string_view buffer, std::size_t limit = kMaxFrame);

// Decodes the complete frame at the front of `buffer`. Returns the number of bytes it used;
// nullopt: more bytes are needed. Throws Error as frame_bytes(), and on a body that is not a JSON object
// with a string "type".
std::optional<std::size_t> decode(std::string_view buffer, Frame& frame, std::size_t limit = kMaxFrame);

}  // namespace espalier::wire
