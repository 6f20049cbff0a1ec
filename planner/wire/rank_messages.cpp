#include "planner/wire/rank_messages.hpp"

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"

namespace espalier::wire {

std::string bytes_to_text(const std::string& bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80) {
      text += byte;
    } else {  // two bytes of UTF-8
      text += static_cast<char>(0xc0 | (value >> 6));
      text += static_cast<char>(0x80 | (value & 0x3f));
    }
  }
  return text;
}

std::string text_to_bytes(const std::string& text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      bytes += text[i];
    } else if ((lead == 0xc2 || lead == 0xc3) && i + 1 < text.size()) {
      bytes += static_cast<char>((lead & 0x03) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    } else {
      throw Error("message: a character above 255 where bytes are expected");
    }
  }
  return bytes;
}

void to_json(Json& json, const GpuFault& fault) { json = {{"gpu", fault.gpu}, {"text", fault.text}}; }

void from_json(const Json& json, GpuFault& fault) {
  const Fields fields(json, "rank_server.gpu_faults", {"gpu", "text"});
  fields.get("gpu", fault.gpu);
  fields.get("text", fault.text);
}

void to_json(Json& json, const RankPlace& place) {
  json = {{"server", place.server}, {"ranks", place.ranks}, {"devices", place.devices}};
}

void from_json(const Json& json, RankPlace& place) {
  const Fields fields(json, "run_ranks.places", {"server", "ranks", "devices"});
  fields.get("server", place.server);
  fields.get("ranks", place.ranks);
  fields.get("devices", place.devices);
}

}  // namespace espalier::wire
