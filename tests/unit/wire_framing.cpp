// Tags of frames: what somebody between two peers can do to frames, and what the receiver says of it.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/wire/framing.hpp"
#include "planner/wire/messages.hpp"

using namespace espalier;
using namespace espalier::wire;

namespace {

ChannelKeys keys(unsigned char seed) {
  ChannelKeys made;
  made.to_server.fill(seed);
  made.to_client.fill(static_cast<unsigned char>(seed + 1));
  return made;
}

struct Pair {
  Framing client, server;
  Pair() { client.protect(keys(1), Side::client), server.protect(keys(1), Side::server); }
};

std::string step(Framing& sender, std::int64_t number) { return sender.encode(to_frame(Switched{number})); }

std::int64_t received(Framing& receiver, const std::string& bytes) {
  Frame frame;
  REQUIRE(receiver.decode(bytes, frame) == bytes.size());
  CHECK(frame.bytes == bytes.size());
  return from_frame<Switched>(frame).step;
}

// What the receiver says.
std::string refused(Framing& receiver, const std::string& bytes) {
  Frame frame;
  try {
    receiver.decode(bytes, frame);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("HMAC-SHA256 is that of RFC 4231, test case 2") {
  const Key made = hmac("Jefe", "what do ya want for nothing?");
  CHECK(hex({reinterpret_cast<const char*>(made.data()), made.size()}) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("a tag covers counter, header and body, in the order that frame_tags.hpp gives") {
  Framing client;
  client.protect(keys(1), Side::client);
  const Key key = keys(1).to_server;
  const std::string_view secret(reinterpret_cast<const char*>(key.data()), key.size());
  for (char count = 0; count < 3; ++count) {
    const std::string frame = encode(to_frame(Ready{}));
    const Key tag = hmac(secret, std::string(7, '\0') + count + frame);
    CHECK(client.encode(to_frame(Ready{})) == frame + std::string(reinterpret_cast<const char*>(tag.data()), 16));
  }
}

TEST_CASE("tagged frames arrive in both directions, whole or byte by byte") {
  Pair pair;
  for (int i = 0; i < 3; ++i) {
    CHECK(received(pair.server, step(pair.client, i)) == i);
    CHECK(received(pair.client, step(pair.server, -i)) == -i);
  }
  const std::string bytes = step(pair.client, 7);
  Frame frame;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(!pair.server.decode(std::string_view(bytes).substr(0, size), frame));
    CHECK(!pair.server.judges(std::string_view(bytes).substr(0, std::min<std::size_t>(size, kHeaderBytes)), size,
                              kMaxFrame));
  }
  CHECK(pair.server.judges(std::string_view(bytes).substr(0, kHeaderBytes), bytes.size(), kMaxFrame));
  CHECK(received(pair.server, bytes) == 7);
}

TEST_CASE("a frame that was altered in any of its bytes is refused") {
  for (std::size_t at = 4;; ++at) {
    Pair pair;
    std::string bytes = step(pair.client, 7);
    if (at == bytes.size()) break;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    // A greater length makes the receiver wait for bytes that are not sent: those of the next frame come in their
    // place.
    bytes += std::string(1u << 9, 'x');
    Frame frame;
    bool taken = false;
    try {
      taken = pair.server.decode(bytes, frame).has_value();
    } catch (const Error&) {
    }
    CHECK_MESSAGE(!taken, "byte " << at);
  }
}

TEST_CASE("a frame that comes twice is refused, and the message says so") {
  Pair pair;
  const std::string bytes = step(pair.client, 1);
  received(pair.server, bytes);
  CHECK(refused(pair.server, bytes) == "stream: message 1 was not sent as it came: it repeats message 0");
}

TEST_CASE("frames in another order are refused, and the message says so") {
  Pair pair;
  const std::string first = step(pair.client, 1), second = step(pair.client, 2);
  CHECK(refused(pair.server, second) ==
        "stream: message 0 was not sent as it came: it is message 1, and others before it are missing");
}

TEST_CASE("a frame that somebody has left out is missed at the next one") {
  Pair pair;
  received(pair.server, step(pair.client, 1));
  step(pair.client, 2);
  CHECK(refused(pair.server, step(pair.client, 3)) ==
        "stream: message 1 was not sent as it came: it is message 2, and others before it are missing");
}

TEST_CASE("a frame that is cut short does not count as the one it began") {
  Pair pair;
  const std::string cut = step(pair.client, 1), next = step(pair.client, 2);
  CHECK(refused(pair.server, cut.substr(0, cut.size() - 1) + next).find("altered on the way") != std::string::npos);
}

TEST_CASE("a frame without a tag, one sent back to its sender, and one of another connection are refused") {
  Pair pair;
  CHECK(refused(pair.server, encode(to_frame(Switched{1})) + std::string(16, '\0')).find("altered") !=
        std::string::npos);
  CHECK(refused(pair.client, step(pair.client, 1)).find("altered") != std::string::npos);
  Framing other;
  other.protect(keys(5), Side::client);
  CHECK(refused(pair.server, step(other, 1)).find("altered") != std::string::npos);
}

TEST_CASE("nothing of a frame is parsed before its tag is right") {
  Pair pair;
  std::string bytes = step(pair.client, 1);
  bytes.replace(kHeaderBytes, 1, "[");
  CHECK(refused(pair.server, bytes).find("altered") != std::string::npos);  // not: "is not a JSON object"
}

TEST_CASE("limits hold for tagged frames before they have come") {
  Pair pair;
  const std::string bytes = step(pair.client, 1);
  Frame frame;
  CHECK_THROWS_AS(pair.server.decode(bytes.substr(0, kHeaderBytes), frame, 5), Error);
  CHECK(pair.server.judges(bytes.substr(0, kHeaderBytes), kHeaderBytes, 5));
}
