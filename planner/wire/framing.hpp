// The frames of one connection as bytes: without tags until protect(), with tags from then on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "planner/wire/frame.hpp"
#include "planner/wire/frame_tags.hpp"

namespace espalier::wire {

enum class Side { server, client };

// One thread at a time may call encode(), and one decode(): they share nothing.
class Framing {
 public:
  // `own`: this process's side. Frames that were encoded or decoded before have no tags.
  void protect(const ChannelKeys& keys, Side own);
  std::string encode(const Frame& frame);
  std::string encode(std::string frame);  // header and body, of wire::encode()
  // As wire::decode(). Throws Error also for a frame that the peer has not sent, or not in this place.
  std::optional<std::size_t> decode(std::string_view buffer, Frame& frame, std::size_t limit = kMaxFrame);
  // Whether decode() can judge an input of `size` bytes that begins with `header`: the input holds a
  // whole frame, or bytes that can never become one.
  bool judges(std::string_view header, std::size_t size, std::size_t limit) const;

 private:
  std::optional<FrameTags> sent_, received_;
};

}  // namespace espalier::wire
