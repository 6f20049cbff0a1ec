#include "planner/wire/rank_messages.hpp"

#include <openssl/evp.h>

#include <limits>

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/wire/message_conversion.hpp"

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

// OpenSSL takes lengths as int. No message is as long by far.
static int length_of(const std::string& text) {
  if (text.size() > std::numeric_limits<int>::max() / 2) throw Error("message: more bytes than any message has");
  return static_cast<int>(text.size());
}

std::string bytes_to_base64(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a NUL
  const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()), length_of(bytes));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string base64_to_bytes(const std::string& text) {
  const auto letters = text.find_last_not_of('=') + 1;
  std::string bytes(text.size() / 4 * 3, '\0');
  // OpenSSL alone would take spaces around the text and filling within it, and counts the filling as bytes.
  const bool plain =
      text.substr(0, letters).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") ==
      std::string::npos;
  if (text.size() % 4 != 0 || text.size() - letters > 2 || !plain ||
      ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                        reinterpret_cast<const unsigned char*>(text.data()), length_of(text)) < 0)
    throw Error("message: bytes in base64 are expected");
  bytes.resize(bytes.size() - (text.size() - letters));
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

template <class Visitor>
static void visit(RankServerHello& m, Visitor& v) {
  v("job", m.job), v("node", m.node), v("pid", m.pid), v.maybe("gpu_faults", m.gpu_faults);
  v.maybe("base64", m.base64);
}
template <class Visitor>
static void visit(RankEnded& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("code", m.code), v("finalized", m.finalized);
}
template <class Visitor>
static void visit(RankAborted& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("code", m.code);
}
template <class Visitor>
static void visit(RanksRefused& m, Visitor& v) {
  v("generation", m.generation), v("reason", m.reason);
}
template <class Visitor>
static void visit(FenceEntered& m, Visitor& v) {
  v("generation", m.generation), v("number", m.number), v("data", m.data), v.maybe("base64", m.base64);
}
template <class Visitor>
static void visit(RankOutput& m, Visitor& v) {
  v("error", m.error), v("text", m.text);
}
template <class Visitor>
static void visit(ModexWanted& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("ticket", m.ticket);
}
template <class Visitor>
static void visit(ModexFound& m, Visitor& v) {
  v("generation", m.generation), v("ticket", m.ticket), v("found", m.found), v("data", m.data);
}
template <class Visitor>
static void visit(RunRanks& m, Visitor& v) {
  v("generation", m.generation), v("name", m.name), v("places", m.places), v("here", m.here);
  v("program", m.program), v("environment", m.environment), v("directory", m.directory), v("folder", m.folder);
  v("limits", m.limits), v("network", m.network), v("first", m.first), v("address", m.address), v("port", m.port);
  v.maybe("base64", m.base64);
}
template <class Visitor>
static void visit(Rendezvous& m, Visitor& v) {
  v("generation", m.generation), v("address", m.address), v("port", m.port);
}
template <class Visitor>
static void visit(FenceDone& m, Visitor& v) {
  v("generation", m.generation), v("number", m.number), v("complete", m.complete), v("data", m.data);
  v.maybe("base64", m.base64);
}
template <class Visitor>
static void visit(SparesFork&, Visitor&) {}
template <class Visitor>
static void visit(KeepSpares& m, Visitor& v) {
  v("count", m.count), v("program", m.program), v("environment", m.environment), v("folder", m.folder);
  v("limits", m.limits), v.maybe("forks", m.forks);
}
template <class Visitor>
static void visit(SignalRanks& m, Visitor& v) {
  v("generation", m.generation), v("number", m.number);
}
template <class Visitor>
static void visit(EndRanks& m, Visitor& v) {
  v("generation", m.generation);
}
template <class Visitor>
static void visit(OutputTaken& m, Visitor& v) {
  v("bytes", m.bytes);
}

ESPALIER_MESSAGE(RankServerHello)
ESPALIER_MESSAGE(RankEnded)
ESPALIER_MESSAGE(RankAborted)
ESPALIER_MESSAGE(RanksRefused)
ESPALIER_MESSAGE(Rendezvous)
ESPALIER_MESSAGE(FenceEntered)
ESPALIER_MESSAGE(RankOutput)
ESPALIER_MESSAGE(ModexWanted)
ESPALIER_MESSAGE(ModexFound)
ESPALIER_MESSAGE(RunRanks)
ESPALIER_MESSAGE(FenceDone)
ESPALIER_MESSAGE(KeepSpares)
ESPALIER_MESSAGE(SparesFork)
ESPALIER_MESSAGE(SignalRanks)
ESPALIER_MESSAGE(EndRanks)
ESPALIER_MESSAGE(OutputTaken)

}  // namespace espalier::wire
