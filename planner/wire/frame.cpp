#include "planner/wire/frame.hpp"

#include <cstring>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier::wire {
namespace {

// Throws Error when the text is nested too deeply or has too many values. Returns a discarded value when it is not
// JSON.
Json parse(std::string_view text) {
  const JsonSize size = json_size(text);
  if (size.depth > kMaxDepth) throw Error("stream: a message is nested too deeply");
  if (size.values > kMaxFrameValues) throw Error("stream: a message holds too many values");
  return Json::parse(text, nullptr, false);
}

}  // namespace

std::string encode(const Frame& frame) {
  // A name or message may hold bytes that are not UTF-8. The frame is sent all the same.
  return encode_text(frame.type, frame.body.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string encode_text(const std::string& type, std::string_view body) {
  body.remove_suffix(1);  // "}"
  const std::string end = (body.size() > 1 ? ",\"type\":" : "\"type\":") + Json(type).dump() + "}";
  const std::size_t length = body.size() + end.size();
  if (length > kMaxFrame) throw Error("message " + type + ": larger than a frame may be");
  const auto size = static_cast<std::uint32_t>(length);
  std::string bytes;
  bytes.reserve(kHeaderBytes + length);
  bytes = "ESP";
  bytes += static_cast<char>(kProtocolVersion);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((size >> shift) & 0xff);
  bytes += body;
  return bytes += end;
}

std::optional<std::size_t> frame_bytes(std::string_view buffer, std::size_t limit) {
  if (std::string_view("ESP").substr(0, std::min<std::size_t>(3, buffer.size())) != buffer.substr(0, 3))
    throw Error("stream: not the Espalier protocol; check the port");
  if (buffer.size() < kHeaderBytes) return std::nullopt;
  const auto version = static_cast<unsigned char>(buffer[3]);
  if (version != kProtocolVersion)
    throw Error("stream: the peer speaks protocol version " + std::to_string(version) + ", this side " +
                std::to_string(kProtocolVersion) + "; install the same Espalier on all nodes");
  std::size_t size = 0;
  for (std::size_t i = 4; i < kHeaderBytes; ++i) size = size << 8 | static_cast<unsigned char>(buffer[i]);
  if (size > limit) throw Error("stream: a message of " + std::to_string(size) + " bytes is larger than allowed");
  return kHeaderBytes + size;
}

std::optional<std::size_t> decode(std::string_view buffer, Frame& frame, std::size_t limit) {
  const auto size = frame_bytes(buffer, limit);
  if (!size || buffer.size() < *size) return std::nullopt;
  Json object = parse(buffer.substr(kHeaderBytes, *size - kHeaderBytes));
  if (!object.is_object()) throw Error("stream: a message is not a JSON object");
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string()) throw Error("stream: a message has no type");
  frame.type = type->get<std::string>();
  if (frame.type.size() > 64) throw Error("stream: a message's type is longer than any there is");
  object.erase(type);
  frame.body = std::move(object);
  frame.bytes = *size;
  return size;
}

}  // namespace espalier::wire
