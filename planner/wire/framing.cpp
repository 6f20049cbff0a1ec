#include "planner/wire/framing.hpp"

#include "planner/core/error.hpp"

namespace espalier::wire {

void Framing::protect(const ChannelKeys& keys, Side own) {
  sent_.emplace(own == Side::server ? keys.to_client : keys.to_server);
  received_.emplace(own == Side::server ? keys.to_server : keys.to_client);
}

std::string Framing::encode(const Frame& frame) { return encode(wire::encode(frame)); }

std::string Framing::encode(std::string bytes) {
  if (sent_) bytes += sent_->next(bytes);
  return bytes;
}

std::optional<std::size_t> Framing::decode(std::string_view buffer, Frame& frame, std::size_t limit) {
  if (!received_) return wire::decode(buffer, frame, limit);
  const auto size = frame_bytes(buffer, limit);
  if (!size || buffer.size() < *size + kTagBytes) return std::nullopt;
  // Nothing of a frame is looked at before its tag is found right.
  received_->check(buffer.substr(0, *size), buffer.substr(*size, kTagBytes));
  wire::decode(buffer.substr(0, *size), frame, limit);
  frame.bytes += kTagBytes;
  return *size + kTagBytes;
}

bool Framing::judges(std::string_view header, std::size_t size, std::size_t limit) const {
  try {
    const auto frame = frame_bytes(header, limit);
    return frame && size >= *frame + (received_ ? kTagBytes : 0);
  } catch (const Error&) {
    return true;
  }
}

}  // namespace espalier::wire
