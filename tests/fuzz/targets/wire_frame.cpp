// Streams of frames, without tags and with them. The first byte of the input says how it is cut into pieces.
#include <string>

#include "planner/core/error.hpp"
#include "planner/wire/framing.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {
namespace {

using namespace wire;

// As a connection reads: what has come so far is decoded until more is needed.
void read_in_pieces(std::string_view input, std::size_t piece, std::size_t limit) {
  Framing reader;
  std::string buffer;
  for (std::size_t at = 0; at < input.size(); at += piece) {
    buffer += input.substr(at, piece);
    for (;;) {
      Frame frame;
      const bool judges = reader.judges(std::string_view(buffer).substr(0, kHeaderBytes), buffer.size(), limit);
      const auto used = reader.decode(buffer, frame, limit);
      require(judges == used.has_value());
      if (!used) break;
      require(*used <= buffer.size() && *used == frame.bytes);
      // What was read and is written again is read as the same.
      Frame again;
      const std::string bytes = encode(frame);
      require(decode(bytes, again) == bytes.size());
      require(again.type == frame.type && encode(again) == bytes);
      buffer.erase(0, *used);
    }
  }
}

// A stranger's bytes after the login: nothing of them may pass as the peer's.
void read_with_tags(std::string_view input) {
  ChannelKeys keys;
  keys.to_server.fill(1), keys.to_client.fill(2);
  Framing client, server;
  client.protect(keys, Side::client), server.protect(keys, Side::server);
  Frame frame;
  const std::string sent = client.encode(Frame{"hello", Json::object()});
  require(server.decode(sent, frame) == sent.size() && frame.type == "hello");
  require(!server.decode(input, frame).has_value());
}

}  // namespace

void wire_frame(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  for (const std::size_t limit : {kMaxStranger, kMaxFrame}) try {
      read_in_pieces(input, piece, limit);
    } catch (const Error&) {
    }
  try {
    read_with_tags(input);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
