// The tags of the frames of one direction of a connection: each proves that its frame comes from the
// peer of the login, unaltered and in its place. A tag is 16 bytes:
//
//   HMAC-SHA256(key of the direction, counter || header || body), the first 16 bytes
//
// The counter is the number of tagged frames before this one in its direction, as 8 bytes, big-endian.
// It is not sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_mac_ctx_st;

namespace espalier::wire {

inline constexpr std::size_t kTagBytes = 16, kKeyBytes = 32;
using Key = std::array<unsigned char, kKeyBytes>;

// Of one connection. Both are derived from the two texts of its login (handshake.hpp).
struct ChannelKeys {
  Key to_server{}, to_client{};
};

// HMAC-SHA256. Throws Error when libcrypto fails.
Key hmac(std::string_view key, std::string_view message);

// Movable. One thread at a time may use it.
class FrameTags {
 public:
  explicit FrameTags(const Key& key);  // throws Error
  // The tag of the next frame, which is sent.
  std::string next(std::string_view frame);
  // For the next frame, which was received. Throws Error, which says whether the frame was altered,
  // or sent again, or whether frames before it are missing.
  void check(std::string_view frame, std::string_view tag);

 private:
  struct Free {
    void operator()(evp_mac_ctx_st* context) const;
  };
  std::string tag_of(std::uint64_t counter, std::string_view frame);
  bool matches(std::uint64_t counter, std::string_view frame, std::string_view tag);

  std::unique_ptr<evp_mac_ctx_st, Free> context_;
  std::uint64_t counter_ = 0;
};

}  // namespace espalier::wire
